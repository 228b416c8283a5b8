"""XLNet checkpoints of `transformers`."""

import dataclasses
import os
from reprlib import repr as shorten

import numpy as np

from keras_attn.checkpoints.architectures import (
    check_architecture,
    read_activation,
    written_activation,
)
from keras_attn.checkpoints.huggingface_config import (
    check_config,
    model_of_task,
    models_of,
    read_optional,
    require_values,
)
from keras_attn.checkpoints.safetensors_files import read_tensors, write_tensors
from keras_attn.checkpoints.sentence_piece_files import CONFIG, read_tokenizer
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.errors import UserError
from keras_attn.families.huggingface_tensors import head_tensors, layout
from keras_attn.families.xlnet.family import FAMILY
from keras_attn.families.xlnet.tensors import check_writable, is_dense, is_output, model_tensors
from keras_attn.io.json_files import write_json
from keras_attn.registry import TASKS

_BARE = "XLNetModel"
_MODELS = {"XLNetLMHeadModel": "permutation_lm", _BARE: "permutation_lm"}
_FIELDS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "n_layer",
    "hidden_dim": "d_model",
    "num_heads": "n_head",
    "intermediate_dim": "d_inner",
    "dropout": "dropout",
    "attention_dropout": "dropout",
    "memory_length": "mem_len",
    "reuse_length": "reuse_len",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}
# The defaults of `transformers` for fields that config.json lacks.
_DEFAULTS = {
    "vocab_size": 32000,
    "n_layer": 24,
    "d_model": 1024,
    "n_head": 16,
    "d_inner": 4096,
    "dropout": 0.1,
    "mem_len": 512,
    "reuse_len": None,
    "clamp_len": -1,
    "ff_activation": "gelu",
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "attn_type": "bi",
    "untie_r": True,
    "bi_data": False,
    "same_length": False,
    "tie_word_embeddings": True,
    "summary_type": "last",
    "summary_use_proj": True,
    "summary_activation": "tanh",
    "summary_last_dropout": 0.1,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
# Settings of which only one value is supported.
_NEEDED = {
    "attn_type": "bi",
    "untie_r": True,
    "bi_data": False,
    "same_length": False,
    "tie_word_embeddings": True,
}
_SUMMARY = {"summary_type": "last", "summary_use_proj": True, "summary_activation": "tanh"}
_DROPOUT = "summary_last_dropout"
_PREFIX, _EMBEDDING, _HEAD = "transformer.", "transformer.word_embedding.weight", "lm_loss.weight"


def read(folder, config=None):
    """Reads a folder of `transformers`; the weights are read when they are used.

    Args:
        folder: The folder.
        config: Content of its config.json, if it has been read already.

    Returns:
        A `TrainedModel`; an XLNetModel, which has no head, gets an output bias of 0.

    Raises:
        UserError: If the model or a setting is not supported, a file is damaged, the weights are a
            pickle, or a tensor is missing, unknown or misshapen.
    """
    models = models_of(FAMILY, "XLNet", _MODELS)
    path, config, model = check_config(folder, config, _DEFAULTS, models)
    task = models[model]
    classifies, bare = task == "classification", model == _BARE
    tied = task == "permutation_lm" and not bare
    require_values(config, {**_NEEDED, **(_SUMMARY if classifies else {})}, path)
    tensors = read_tensors(folder)
    architecture = {**_architecture(config, path, len(tensors.header)), "use_pooler": classifies}
    heads, files = TASKS[task].read_head(config, path, _DROPOUT)
    if classifies:
        heads["pooling"] = "last"
    both = tied and _HEAD in tensors.header and _EMBEDDING in tensors.header
    embedding = _HEAD if tied and _EMBEDDING not in tensors.header else _EMBEDDING
    tensors_of = _layout(architecture, task, heads, embedding)
    weights = (
        _without_head(tensors, tensors_of)
        if bare
        else tensors.take(tensors_of, {_HEAD} if both else ())
    )
    if both and not tensors.equal(_HEAD, _EMBEDDING):
        raise UserError(
            f"{_HEAD} must be equal to {_EMBEDDING}. Received: different values in {tensors.source}"
        )
    settings = read_optional(folder, CONFIG)
    lowercase = settings.get("do_lower_case")
    if (
        lowercase not in (None, True, False)
        or settings.get("keep_accents")
        or settings.get("remove_space") is False
    ):
        raise UserError(
            "The tokenizer must normalize text like XLNet's, with keep_accents=False and "
            f"remove_space=True. Received: {CONFIG} in {folder}"
        )
    tokenizer, lowercase = read_tokenizer(folder, architecture["vocabulary_size"], lowercase)
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
    architecture, tokenizer = trained.architecture, trained.tokenizer
    # XLNet of transformers has one dropout rate.
    check_writable(trained, "transformers", attention_dropout=architecture["dropout"])
    config = {
        "model_type": "xlnet",
        "architectures": [model_of_task(models_of(FAMILY, "XLNet", _MODELS), trained.task)],
        **{theirs: architecture[ours] for ours, theirs in reversed(_FIELDS.items())},
        "mem_len": architecture["memory_length"] or None,
        "clamp_len": architecture["max_distance"] or -1,
        "ff_activation": written_activation(architecture, _ACTIVATIONS, "transformers"),
        "d_head": architecture["hidden_dim"] // architecture["num_heads"],
        **_NEEDED,
        **_SUMMARY,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": tokenizer.pad_id,
        "dtype": "float32",
        **TASKS[trained.task].write_head(trained, _DROPOUT),
    }
    tensors_of = _layout(architecture, trained.task, trained.heads, _EMBEDDING)
    write_tensors(folder, split(tensors_of, trained.weights))
    tokenizer.write(folder)
    write_json(
        os.path.join(folder, CONFIG),
        {
            "tokenizer_class": "XLNetTokenizer",
            "do_lower_case": tokenizer.lowercase,
            "remove_space": True,
            "keep_accents": False,
        },
    )
    # Written last, as it identifies a complete folder.
    write_json(os.path.join(folder, "config.json"), config)


def _without_head(tensors, tensors_of):
    """Returns the weights of an XLNetModel, with an output bias of 0."""
    tensors_of = dict(tensors_of)
    [bias] = tensors_of.pop("output_bias")
    if _EMBEDDING not in tensors.header:
        tensors_of = {
            path: [
                dataclasses.replace(piece, name=piece.name.removeprefix(_PREFIX))
                for piece in pieces
            ]
            for path, pieces in tensors_of.items()
        }
    return {**tensors.take(tensors_of), "output_bias": np.zeros(bias.shape, np.float32)}


def _architecture(config, path, most_layers):
    activation = read_activation(config, "ff_activation", _ACTIVATIONS, path)
    max_distance = config["clamp_len"]
    if isinstance(max_distance, bool) or not isinstance(max_distance, int):
        raise UserError(
            f"clamp_len must be an integer. Received: {shorten(max_distance)} in {path}"
        )
    given = {ours: config[theirs] for ours, theirs in _FIELDS.items()}
    given.update(
        activation=activation,
        memory_length=given["memory_length"] or 0,
        reuse_length=given["reuse_length"] or None,
        max_distance=max_distance if max_distance > 0 else None,
    )
    return check_architecture(FAMILY, given, path, most_layers)


def _layout(architecture, task, heads, embedding):
    encoder = {
        path: [_piece(embedding if name == _EMBEDDING else name, own, theirs) for name in names]
        for path, names, own, theirs in model_tensors(architecture)
    }
    if task == "permutation_lm":
        bias = ExternalTensor("lm_loss.bias", (architecture["vocabulary_size"],))
        return {**encoder, "output_bias": [bias]}
    names = {"logits_dense": "logits_proj"} if task == "classification" else {}
    return encoder | layout(head_tensors(task, heads, architecture["hidden_dim"], names))


def _piece(name, own, theirs):
    if is_dense(name):
        return ExternalTensor(name, own[::-1], transposed=True)
    return ExternalTensor(name, theirs or own, transposed=is_output(name), own_shape=own)
