"""GPT-2 checkpoints of `transformers`."""

import os
import re
from reprlib import repr as shorten

import numpy as np

from keras_attn.checkpoints.architectures import (
    check_architecture,
    read_activation,
    written_activation,
)
from keras_attn.checkpoints.byte_pair_files import read_tokenizer, write_tokenizer
from keras_attn.checkpoints.huggingface_config import (
    check_config,
    model_of_task,
    models_of,
    require_values,
)
from keras_attn.checkpoints.safetensors_files import read_tensors, write_tensors
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.errors import UserError
from keras_attn.families.gpt2.family import FAMILY
from keras_attn.families.gpt2.tensors import model_tensors
from keras_attn.families.huggingface_tensors import head_tensors, layout
from keras_attn.io.json_files import write_json
from keras_attn.registry import TASKS

_MODELS = {"GPT2LMHeadModel": "causal_lm", "GPT2Model": "causal_lm"}
_FIELDS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "n_layer",
    "hidden_dim": "n_embd",
    "num_heads": "n_head",
    "intermediate_dim": "n_inner",
    "max_length": "n_positions",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_epsilon",
}
_ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "silu": "silu",
}
# The defaults of `transformers` for fields that config.json lacks.
_DEFAULTS = {
    "vocab_size": 50257,
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": None,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "pad_token_id": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
# Settings of which only one value is supported.
_NEEDED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_HEAD, _BIAS = "lm_head.weight", "logits_dense/bias"
_MASKS = re.compile(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias")  # causal masks


def read(folder, config=None):
    """Reads a folder of `transformers`; the weights are read when they are used.

    Args:
        folder: The folder.
        config: Content of its config.json, if it has been read already.

    Returns:
        A `TrainedModel`. Classifiers of `transformers` have no bias and add no end-of-sequence
        token, so theirs has a bias of 0 and `append_eos=False`.

    Raises:
        UserError: If the model or a setting is not supported, a file is damaged, the weights are a
            pickle, or a tensor is missing, unknown or misshapen.
    """
    models = models_of(FAMILY, "GPT2", _MODELS)
    path, config, model = check_config(folder, config, _DEFAULTS, models)
    task = models[model]
    heads, files = TASKS[task].read_head(config, path)
    classifies, generates = task == "classification", task == "causal_lm"
    if classifies:
        heads["pooling"] = "last"
    activation = read_activation(config, "activation_function", _ACTIVATIONS, path)
    tensors = read_tensors(folder)
    architecture = check_architecture(
        FAMILY,
        {**{ours: config[theirs] for ours, theirs in _FIELDS.items()}, "activation": activation},
        path,
        len(tensors.header),
    )
    # After the check that resid_pdrop is a number, as NaN is not equal to itself.
    require_values(config, {**_NEEDED, "embd_pdrop": config["resid_pdrop"]}, path)
    prefix = "transformer." if "transformer.wte.weight" in tensors.header else ""
    unused = {name for name in tensors.header if _MASKS.fullmatch(name)}
    weights = tensors.take(
        _layout(architecture, task, heads, prefix), unused | {_HEAD} if generates else unused
    )
    if classifies:
        weights[_BIAS] = np.zeros(heads["num_classes"], np.float32)
    elif generates and _HEAD in tensors.header and not tensors.equal(_HEAD, f"{prefix}wte.weight"):
        raise UserError(
            f"{_HEAD} must be equal to {prefix}wte.weight. "
            f"Received: different values in {tensors.source}"
        )
    tokenizer = read_tokenizer(folder, architecture["vocabulary_size"], generates)
    if classifies and tokenizer:
        _check_padding(config["pad_token_id"], tokenizer, path)
    return TrainedModel(folder, FAMILY, task, architecture, heads, weights, tokenizer, False, files)


def write(folder, trained):
    """Writes a folder that `transformers` loads.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If `transformers` does not support the model.
    """
    architecture, end = trained.architecture, trained.tokenizer.end_id
    activation = written_activation(architecture, _ACTIVATIONS, "transformers")
    weights, head = trained.weights, TASKS[trained.task].write_head(trained)
    if trained.task == "classification":
        _check_classifier(trained)
        weights = {path: weight for path, weight in weights.items() if path != _BIAS}
        head["pad_token_id"] = end
    tensors_of = _layout(architecture, trained.task, trained.heads, "transformer.")
    write_tensors(folder, split(tensors_of, weights))
    write_tokenizer(folder, trained.tokenizer, architecture["max_length"])
    # Written last, as it identifies a complete folder.
    write_json(
        os.path.join(folder, "config.json"),
        {
            "model_type": "gpt2",
            "architectures": [model_of_task(models_of(FAMILY, "GPT2", _MODELS), trained.task)],
            **{theirs: architecture[ours] for ours, theirs in _FIELDS.items()},
            "n_ctx": architecture["max_length"],
            "embd_pdrop": architecture["dropout"],
            "activation_function": activation,
            "bos_token_id": end,
            "eos_token_id": end,
            "dtype": "float32",
            **head,
        },
    )


def _layout(architecture, task, heads, prefix):
    # Kernels of the decoder have our shape; kernels of heads are transposed.
    backbone = {
        path: [ExternalTensor(prefix + name, shape)]
        for path, name, shape in model_tensors(architecture)
    }
    names = {"logits_dense": "score"} if task == "classification" else {}
    head = layout(head_tensors(task, heads, architecture["hidden_dim"], names))
    if task == "classification":
        del head[_BIAS]
    return backbone | head


def _check_padding(pad, tokenizer, path):
    """Raises a `UserError` for padding that may end a text.

    `transformers` classifies the last token that is not padding, here the last token of the text.
    """
    if (
        pad is not None
        and type(pad) is not int
        or pad in range(tokenizer.vocabulary_size)
        and tokenizer.can_occur_in_text(pad)
    ):
        raise UserError(
            "pad_token_id must be null or a token that does not occur in text. "
            f"Received: {shorten(pad)} in {path}"
        )


def _check_classifier(trained):
    """Raises a `UserError` for a classifier that `transformers` does not support."""
    heads = trained.heads
    for setting, found in (
        ("an end-of-sequence token", trained.tokenizer.append_eos),
        ("a bias", np.any(np.asarray(trained.weights[_BIAS]))),
        (f"dropout={heads['dropout']}", heads["dropout"]),
        (f"pooling={heads.get('pooling')}", heads.get("pooling") not in (None, "last")),
    ):
        if found:
            raise UserError(
                "A GPT-2 classifier of transformers uses the last token of the text, without an "
                f"end-of-sequence token, a bias or dropout. Received: {setting}"
            )
