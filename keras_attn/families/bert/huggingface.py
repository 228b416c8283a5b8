"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

import functools
import os

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
from keras_attn.families.bert.tensors import check_writable, model_tensors
from keras_attn.families.huggingface_tensors import layout, position_ids, stored_name
from keras_attn.io.json_files import write_json
from keras_attn.registry import TASKS

_MODELS = {
    "BertForPreTraining": "masked_lm",
    "BertForMaskedLM": "masked_lm",
    "BertModel": "backbone",
}
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
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_NEXT = "cls.seq_relationship.weight"
_BIAS, _DECODER = "cls.predictions.bias", "cls.predictions.decoder."
_DROPOUT = "classifier_dropout"


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
    models = models_of(FAMILY, "Bert", _MODELS)
    path, config, model = check_config(folder, config, _DEFAULTS, models)
    require_values(config, _NEEDED, path)
    task, tensors = models[model], read_tensors(folder)
    architecture = read_architecture(FAMILY, config, path, len(tensors.header))
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
    head = FAMILY.model_class(task)
    needs_pooler = head is not None and head.uses_pooler(**heads)
    architecture["use_pooler"] = needs_pooler or any(
        name.endswith("pooler.dense.weight") for name in tensors.header
    )
    untied = not heads.get("tie_embeddings", True)
    tensors_of = layout(
        model_tensors(architecture, task, heads),
        functools.partial(_name_in, tensors.header, untied),
    )
    copies = _copies(tensors.header, tensors_of, untied)
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
    check_writable(trained, "transformers")
    config = _config(trained)
    tensors = dict(split(layout_of(trained), trained.weights))
    if not trained.heads.get("tie_embeddings", True):
        tensors[_DECODER + "bias"] = tensors[_BIAS]
    if trained.task == "backbone":
        tensors = {name.removeprefix("bert."): array for name, array in tensors.items()}
    write_tensors(folder, tensors.items())
    write_tokenizer(
        folder, trained.tokenizer.vocabulary, trained.lowercase, trained.architecture["max_length"]
    )
    # Written last, as it identifies a complete folder.
    write_json(os.path.join(folder, "config.json"), config)


def layout_of(trained):
    """Returns the layout of a `TrainedModel`, `{our path: [ExternalTensor, …]}`."""
    return layout(model_tensors(trained.architecture, trained.task, trained.heads))


def _config(trained):
    """Returns the content of config.json."""
    return {
        "model_type": "bert",
        "architectures": [_model_of(trained)],
        **write_architecture(trained.architecture, "transformers"),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": trained.heads.get("tie_embeddings", True),
        "pad_token_id": trained.tokenizer.vocabulary.index("[PAD]"),
        "dtype": "float32",
        **TASKS[trained.task].write_head(trained, _DROPOUT),
    }


def _model_of(trained):
    if trained.task != "masked_lm":
        return model_of_task(models_of(FAMILY, "Bert", _MODELS), trained.task)
    if trained.heads["next_sentence"]:
        return "BertForPreTraining"
    if trained.architecture["use_pooler"]:
        raise UserError(
            "transformers has no masked language model with a pooler but without next-sentence "
            "prediction. Received: next_sentence=False, use_pooler=True"
        )
    return "BertForMaskedLM"


def _name_in(header, untied, name):
    """Returns the name of a tensor in the file."""
    if name == _BIAS and untied and _DECODER + "bias" in header:
        return _DECODER + "bias"  # the one that an untied model of version 5 adds
    return stored_name(header, "bert.", name)


def _copies(header, tensors_of, untied):
    """Returns the tensors that the file may have in addition, and the tensor that each must equal.

    They are an unused bias of an untied model, which equals none, and the copies of the embedding
    matrix and the bias in the output layer of a tied model.
    """
    used = {piece.name for pieces in tensors_of.values() for piece in pieces}
    if untied:
        return {_BIAS: None} if _BIAS not in used else {}
    matrix = next(name for name in used if name.endswith("word_embeddings.weight"))
    twins = {_DECODER + "bias": _BIAS, _DECODER + "weight": matrix}
    return {name: twin for name, twin in twins.items() if name in header and twin in used}
