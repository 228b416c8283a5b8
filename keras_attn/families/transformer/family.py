"""The family of the encoder-decoder Transformer."""

import math

from keras_attn.defaults import default_config
from keras_attn.errors import UserError, check_choice
from keras_attn.families.contract import Family
from keras_attn.families.step_memory import LayerMemory, feed_forward_dim, layer_values
from keras_attn.models.transformer import TRANSFORMER_SIZES, Transformer
from keras_attn.text.recipes import KINDS

_SHAPE = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
_FREE = ("dropout", "attention_dropout", "label_smoothing")  # no weight depends on them


class TransformerFamily(Family):
    """The Transformer (Vaswani et al., 2017)."""

    name, title = "transformer", "Transformer"
    backbone, backbone_name = Transformer, "transformer"
    task_models = {"translation": None}
    encodes = False  # its inputs are pairs of sequences
    tokenizers = KINDS["subwords"]
    sizes = TRANSFORMER_SIZES

    def choose_architecture(self, run, use_pooler=False):
        if run.resumed:
            return dict(run.saved["architecture"])
        fields = run.config.model.to_dict()
        fields.pop("family")
        size = fields.pop("size")
        shape = {name: fields.pop(name) for name in _SHAPE}
        shape = {name: value for name, value in shape.items() if value is not None}
        if run.pretrained:
            given = dict(zip(_SHAPE, self.sizes[size], strict=True)) if size else {}
            return _pretrained_architecture(run, {**given, **shape}, fields)
        size = size or "tiny"
        check_choice("model.size", size, self.sizes)
        # Batches are filled up to some power of two at most.
        longest = 2 ** math.ceil(math.log2(max(run.config.data.length, 8)))
        architecture = {**dict(zip(_SHAPE, self.sizes[size], strict=True)), **shape, **fields,
                        "max_length": longest}
        try:
            Transformer(vocabulary_size=1, **architecture)
        except ValueError as error:
            raise UserError(f"model.* must describe a model of Transformer. {error}") from error
        return architecture

    def memory(self, architecture, length, targets):
        width, layers = architecture["hidden_dim"], architecture["num_layers"]
        inner, table = feed_forward_dim(architecture), architecture["vocabulary_size"] * width
        # Encoder layers, and decoder layers with two attentions.
        parts = [layer_values(architecture, length, length, attentions=count) for count in (1, 2)]
        tables = 1 + bool(architecture.get("target_vocabulary_size")) + (
            not architecture.get("tie_embeddings", True))
        return LayerMemory(
            parameters=layers * (12 * width**2 + 4 * width * inner)
            + architecture.get("max_length", 0) * width + table * tables,
            inputs=2 * layers * length * width, activations=int(layers * sum(parts)),
            layer=int(max(parts)))


def _pretrained_architecture(run, shape, fields):
    """That of the pretrained model, if the config agrees."""
    known = run.pretrained.architecture
    for name, value in shape.items():
        if known[name] != value:
            raise UserError("The architecture must be that of the pretrained model; leave its "
                            "fields out; model.size=None unsets that of a config file. "
                            f"Received: {name}={value}, it has {known[name]}")
    usual = default_config("translation").model
    for name in set(fields).difference(_FREE):
        if fields[name] not in (known[name], usual[name]):
            raise UserError(
                "The architecture must be that of the pretrained model; leave its fields out, "
                f"or give them its values. Received: {name}={fields[name]}, it has {known[name]}")
    if known["positions"] == "learned" and run.config.data.length > known["max_length"]:
        raise UserError("data.length must be at most the positions of the pretrained model. "
                        f"Received: data.length={run.config.data.length}, it has "
                        f"{known['max_length']}")
    return {**known, **{name: fields[name] for name in _FREE}}


FAMILY = TransformerFamily()
