"""Checkpoints of `transformers`: config.json, safetensors and tokenizer.json."""

import os
from reprlib import repr as shorten

from keras_attn.checkpoints.huggingface_config import require_values
from keras_attn.errors import UserError
from keras_attn.families.encoder_folders import EncoderFolders
from keras_attn.families.modernbert.family import FAMILY
from keras_attn.families.modernbert.tensors import MASKED_LM, PREFIX, model_tensors
from keras_attn.io.json_files import write_json
from keras_attn.text.modernbert_byte_pairs import FILE, ModernBertTokenizer

_FIELDS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_length": "max_position_embeddings",
    "dropout": "mlp_dropout",
    "attention_dropout": "attention_dropout",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "norm_eps",
    "use_bias": "attention_bias",
    "norm_bias": "norm_bias",
    "local_every": "global_attn_every_n_layers",
    "window": "local_attention",
    "rotary_base": "global_rope_theta",
    "local_rotary_base": "local_rope_theta",
}
# The defaults of `transformers` for fields that config.json lacks.
_DEFAULTS = {
    "vocab_size": 50368,
    "num_hidden_layers": 22,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 8192,
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "initializer_range": 0.02,
    "norm_eps": 1e-5,
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "mlp_dropout": 0.0,
    "classifier_dropout": 0.0,
    "classifier_pooling": "cls",
    "global_attn_every_n_layers": 3,
    "local_attention": 128,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
_SPECIAL = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
_KINDS = "full_attention", "sliding_attention"


class _ModernBert(EncoderFolders):
    def complete(self, config, path):
        for name in ("attention_bias", "norm_bias"):
            if not isinstance(config[name], bool):
                raise UserError(
                    f"{name} must be true or false. Received: {shorten(config[name])} in {path}"
                )
        equal = dict.fromkeys(("mlp_bias", "classifier_bias"), config["attention_bias"])
        equal["embedding_dropout"] = config["mlp_dropout"]
        equal["classifier_activation"] = config["hidden_activation"]
        require_values(config, {**equal, "decoder_bias": True}, path)
        return {**config, **_bases(config, path), **_every(config, path)}

    def head_arguments(self, task, heads, config, path):
        if task != "classification":
            return heads
        if config["classifier_pooling"] not in ("cls", "mean"):
            raise UserError(
                "classifier_pooling must be cls or mean. Received: "
                f"{shorten(config['classifier_pooling'])} in {path}"
            )
        return {**heads, "pooling": config["classifier_pooling"]}

    def read_tokenizer(self, folder, rows):
        if not os.path.isfile(os.path.join(folder, FILE)):
            return None, False
        tokenizer = ModernBertTokenizer.read(folder)
        if tokenizer.vocabulary_size > rows:
            raise UserError(
                "The vocabulary must not be larger than the embedding matrix. Received: "
                f"{tokenizer.vocabulary_size} tokens, {rows} rows in {folder}"
            )
        return tokenizer.padded(rows), False

    def write_tokenizer(self, folder, trained):
        trained.tokenizer.without_padding_rows().write(folder)
        write_json(
            os.path.join(folder, "tokenizer_config.json"),
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_max_length": trained.architecture["max_length"],
                "model_input_names": ["input_ids", "attention_mask"],
                **{f"{name}_token": token for name, token in _SPECIAL.items()},
            },
        )

    def check_writable(self, trained):
        """Both values of `pooling` are supported, and no argument is fixed."""

    def settings(self, trained):
        architecture, tokenizer = trained.architecture, trained.tokenizer
        ends = {"cls": tokenizer.cls_id, "sep": tokenizer.sep_id}
        ends |= {"bos": ends["cls"], "eos": ends["sep"]}
        return {
            **super().settings(trained),
            **{f"{name}_token_id": number for name, number in ends.items()},
            "embedding_dropout": architecture["dropout"],
            **dict.fromkeys(("mlp_bias", "classifier_bias"), architecture["use_bias"]),
            "classifier_pooling": trained.heads.get("pooling") or "cls",
        }

    def _config(self, trained):
        config = super()._config(trained)
        return {**config, "classifier_activation": config["hidden_activation"]}


def _bases(config, path):
    """Returns the bases of rotary positions under the names of the released config.json."""
    found = config.get("rope_parameters")
    if found is None:
        require_values(config, {"rope_scaling": None}, path)
        return {}
    kinds = [found.get(kind) if isinstance(found, dict) else None for kind in _KINDS]
    for kind in kinds:
        if not isinstance(kind, dict) or kind.get("rope_type", "default") != "default":
            raise UserError(
                "rope_parameters must have the type default for full_attention and "
                f"sliding_attention. Received: {shorten(found)} in {path}"
            )
    names = "global_rope_theta", "local_rope_theta"
    return {
        name: kind.get("rope_theta", config[name]) for name, kind in zip(names, kinds, strict=True)
    }


def _every(config, path):
    """Returns the period of global layers under its name in the released config.json."""
    types = config.get("layer_types")
    if types is None:
        return {}
    layers = config["num_hidden_layers"]
    if isinstance(types, list) and len(types) == layers:
        for every in (3, *range(1, layers + 1)):
            if types == [_KINDS[bool(number % every)] for number in range(layers)]:
                return {"global_attn_every_n_layers": every}
    raise UserError(
        "layer_types must be a full_attention layer followed by a fixed number of "
        f"sliding_attention layers, repeatedly. Received: {shorten(types)} in {path}"
    )


_FOLDERS = _ModernBert(
    family=FAMILY,
    model_type="modernbert",
    classes="ModernBert",
    own={"ModernBertForMaskedLM": "masked_lm", "ModernBertModel": "backbone"},
    tensors=model_tensors,
    prefix=PREFIX,
    masked_lm=MASKED_LM,
    defaults=_DEFAULTS,
    fields=_FIELDS,
    activation_field="hidden_activation",
    dropout="classifier_dropout",
)
read, write, layout_of = _FOLDERS.read, _FOLDERS.write, _FOLDERS.layout_of
