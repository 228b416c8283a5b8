"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from reprlib import repr as shorten
from typing import Any

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.checkpoints.encoder_config import read_architecture, write_architecture
from keras_attn.checkpoints.huggingface_config import (
    check_config,
    model_of_task,
    models_of,
    require_values,
)
from keras_attn.checkpoints.safetensors_files import read_tensors, write_tensors
from keras_attn.checkpoints.tensor_map import split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.checkpoints.word_piece_files import read_tokenizer, write_tokenizer
from keras_attn.errors import UserError
from keras_attn.families.bert.family import FAMILY
from keras_attn.families.bert.tensors import check_writable, encoder_prefix, model_tensors
from keras_attn.families.huggingface_tensors import layout, position_ids, stored_name
from keras_attn.io.json_files import read_object, write_json
from keras_attn.registry import TASKS

# The defaults of `transformers` for fields that config.json lacks.
_DEFAULTS = {
    "vocab_size": 30522,
    "num_hidden_layers": 12,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "tie_word_embeddings": True,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "classifier_dropout": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
# Settings of which only one value is supported.
_NEEDED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclasses.dataclass(frozen=True)
class _Graph:
    """BERT, or its graph with pre-norm, in `transformers`.

    Attributes:
        model_type: `model_type` in config.json.
        classes: Prefix of the names of the classes.
        own: Classes of pretraining and without a head, and their tasks.
        defaults: Defaults for missing fields of config.json.
        output: Prefix of the names of the bias and the matrix of the masked language model.
    """

    model_type: str
    classes: str
    own: Mapping[str, str]
    defaults: Mapping[str, Any]
    output: str

    @property
    def models(self):
        """The supported classes and the task of each."""
        return models_of(FAMILY, self.classes, self.own)

    @property
    def bias(self):
        return f"{self.output}bias"

    @property
    def decoder(self):
        return f"{self.output}decoder."


_POST_NORM = _Graph(
    "bert",
    "Bert",
    {"BertForPreTraining": "masked_lm", "BertForMaskedLM": "masked_lm", "BertModel": "backbone"},
    _DEFAULTS,
    "cls.predictions.",
)
_PRE_NORM = _Graph(
    "roberta-prelayernorm",
    "RobertaPreLayerNorm",
    {"RobertaPreLayerNormForMaskedLM": "masked_lm", "RobertaPreLayerNormModel": "backbone"},
    {**_DEFAULTS, "vocab_size": 50265, "pad_token_id": 1},
    "lm_head.",
)
_NEXT = "cls.seq_relationship.weight"
_POSITIONS = "bert_encoder/position_embedding/embeddings"
_DROPOUT = "classifier_dropout"
_MLM_ACTIVATION = "gelu_erf"  # of RobertaPreLayerNormForMaskedLM, whatever `hidden_act`


def read(folder, config=None):
    """Reads a folder of `transformers`; the weights are read when they are used.

    Args:
        folder: The folder.
        config: Content of its config.json, if it has been read already.

    Returns:
        A `TrainedModel`.

    Raises:
        UserError: If the model or a setting is not supported, a file is damaged, the weights are a
            pickle, or a tensor is missing, unknown or misshapen.
    """
    config = config or read_object(os.path.join(folder, "config.json"))
    graph = _PRE_NORM if config.get("model_type") == _PRE_NORM.model_type else _POST_NORM
    models = graph.models
    path, config, model = check_config(folder, config, graph.defaults, models)
    require_values(config, {"model_type": graph.model_type, **_NEEDED}, path)
    task, tensors = models[model], read_tensors(folder)
    skipped = _skipped_positions(graph, config, path)
    if skipped and isinstance(config["max_position_embeddings"], int):
        config["max_position_embeddings"] -= skipped
    architecture = read_architecture(FAMILY, config, path, len(tensors.header))
    architecture["norm_first"] = graph is _PRE_NORM
    # bert-base-uncased names BertForMaskedLM, but has all tensors of BertForPreTraining.
    next_sentence = model == "BertForPreTraining" or _NEXT in tensors.header
    if config[_DROPOUT] is None:
        config[_DROPOUT] = architecture["dropout"]
    heads, files = TASKS[task].read_head(config, path, _DROPOUT)
    if task == "masked_lm":
        heads = {
            "next_sentence": next_sentence,
            "tie_embeddings": config["tie_word_embeddings"] is not False,
        }
        if graph is _PRE_NORM and architecture["activation"] != _MLM_ACTIVATION:
            heads["mlm_activation"] = _MLM_ACTIVATION
    head = FAMILY.model_class(task)
    needs_pooler = head is not None and head.uses_pooler(**heads)
    architecture["use_pooler"] = needs_pooler or any(
        name.endswith("pooler.dense.weight") for name in tensors.header
    )
    untied = not heads.get("tie_embeddings", True)
    tensors_of = layout(
        model_tensors(architecture, task, heads),
        functools.partial(_name_in, graph, tensors.header, untied),
    )
    _skip_positions(tensors_of, skipped)
    copies = _copies(graph, tensors.header, tensors_of, untied)
    weights = tensors.take(tensors_of, position_ids(tensors.header).union(copies))
    for name, twin in copies.items():
        if twin and not tensors.equal(name, twin):
            raise UserError(
                f"{name} must be equal to {twin}. Received: different values in {tensors.source}"
            )
    tokenizer, lowercase = read_tokenizer(folder, architecture["vocabulary_size"])
    return TrainedModel(
        folder, FAMILY, task, architecture, heads, weights, tokenizer, lowercase, files
    )


def write(folder, trained):
    """Writes a folder that `transformers` loads.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If `transformers` does not support the model.
    """
    graph = _PRE_NORM if trained.architecture["norm_first"] else _POST_NORM
    check_writable(trained, "transformers", norm_first=trained.architecture["norm_first"])
    config = _config(graph, trained)
    tensors_of = layout_of(trained)
    _skip_positions(tensors_of, _skipped_positions(graph, config, folder))
    tensors = dict(split(tensors_of, trained.weights))
    if not trained.heads.get("tie_embeddings", True):
        tensors[graph.decoder + "bias"] = tensors[graph.bias]
    if trained.task == "backbone":
        prefix = encoder_prefix(trained.architecture)
        tensors = {name.removeprefix(prefix): array for name, array in tensors.items()}
    write_tensors(folder, tensors.items())
    write_tokenizer(
        folder, trained.tokenizer.vocabulary, trained.lowercase, trained.architecture["max_length"]
    )
    # Written last, as it identifies a complete folder.
    write_json(os.path.join(folder, "config.json"), config)


def layout_of(trained):
    """Returns the layout of a `TrainedModel`, `{our path: [ExternalTensor, …]}`."""
    return layout(model_tensors(trained.architecture, trained.task, trained.heads))


def _config(graph, trained):
    """Returns the content of config.json."""
    vocabulary = trained.tokenizer.vocabulary
    config = {
        "model_type": graph.model_type,
        "architectures": [_model_of(graph, trained)],
        **write_architecture(trained.architecture, "transformers"),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": trained.heads.get("tie_embeddings", True),
        "pad_token_id": vocabulary.index("[PAD]"),
        "dtype": "float32",
        **TASKS[trained.task].write_head(trained, _DROPOUT),
    }
    if graph is _PRE_NORM:
        ends = {
            "bos_token_id": vocabulary.index("[CLS]"),
            "eos_token_id": vocabulary.index("[SEP]"),
        }
        config |= ends
        config["max_position_embeddings"] += config["pad_token_id"] + 1
    return config


def _model_of(graph, trained):
    if trained.task != "masked_lm":
        return model_of_task(graph.models, trained.task)
    heads, architecture = trained.heads, trained.architecture
    if graph is _PRE_NORM:
        activation = heads.get("mlm_activation") or architecture["activation"]
        for needed, advice in (
            (
                {"activation": _MLM_ACTIVATION},
                f"train with model.activation={_MLM_ACTIVATION}, or convert the encoder alone "
                "(--task=encoder).",
            ),
            (
                {"next_sentence": False, "use_pooler": False},
                "convert without next-sentence prediction (--task=masked_lm).",
            ),
        ):
            require_arguments(
                {**architecture, **heads, "activation": activation},
                needed,
                f"RobertaPreLayerNormForMaskedLM of transformers has {{}}; {advice}",
            )
        return "RobertaPreLayerNormForMaskedLM"
    if heads["next_sentence"]:
        return "BertForPreTraining"
    if architecture["use_pooler"]:
        raise UserError(
            "transformers has no masked language model with a pooler but without next-sentence "
            "prediction. Received: next_sentence=False, use_pooler=True"
        )
    return "BertForMaskedLM"


def _skipped_positions(graph, config, path):
    """Returns the number of rows before the first position in the position embeddings."""
    if graph is not _PRE_NORM:
        return 0
    pad = config["pad_token_id"]
    if isinstance(pad, bool) or not isinstance(pad, int) or pad < 0:
        raise UserError(
            f"pad_token_id must be a non-negative integer. Received: {shorten(pad)} in {path}"
        )
    return pad + 1


def _skip_positions(tensors_of, skipped):
    """Adds rows before the first position to the layout of the position embeddings."""
    if skipped:
        (tensor,) = tensors_of[_POSITIONS]
        rows, size = tensor.shape
        tensors_of[_POSITIONS] = [
            dataclasses.replace(tensor, shape=(rows + skipped, size), skip=skipped)
        ]


def _name_in(graph, header, untied, name):
    """Returns the name of a tensor in the file."""
    if name == graph.bias and untied and graph.decoder + "bias" in header:
        return graph.decoder + "bias"  # the one that an untied model of version 5 adds
    prefix = encoder_prefix({"norm_first": graph is _PRE_NORM})
    return stored_name(header, prefix, name)


def _copies(graph, header, tensors_of, untied):
    """Returns the tensors that the file may have in addition, and the tensor that each must equal.

    They are an unused bias of an untied model, which equals none, and the copies of the embedding
    matrix and the bias in the output layer of a tied model.
    """
    used = {piece.name for pieces in tensors_of.values() for piece in pieces}
    if untied:
        return {graph.bias: None} if graph.bias not in used else {}
    matrix = next(name for name in used if name.endswith("word_embeddings.weight"))
    twins = {graph.decoder + "bias": graph.bias, graph.decoder + "weight": matrix}
    return {name: twin for name, twin in twins.items() if name in header and twin in used}
