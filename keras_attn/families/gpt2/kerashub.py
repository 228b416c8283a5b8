"""Presets of KerasHub: a `GPT2Backbone` and its tokenizer."""

import os

from keras_attn.checkpoints.architectures import check_architecture, need_fields
from keras_attn.checkpoints.byte_pair_files import padded_tokenizer
from keras_attn.checkpoints.kerashub_files import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    class_of,
    object_of,
    read_tensors,
    write_config,
    write_tensors,
)
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.errors import UserError
from keras_attn.families.gpt2.family import FAMILY
from keras_attn.families.gpt2.tensors import check_writable, model_tensors
from keras_attn.io.json_files import read_object, write_json
from keras_attn.text.byte_pairs import END_OF_TEXT, read_files

_FILES = "assets/tokenizer/vocabulary.json", "assets/tokenizer/merges.txt"
_FIELDS = {
    "vocabulary_size": "vocabulary_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_dim",
    "intermediate_dim": "intermediate_dim",
    "dropout": "dropout",
    "max_length": "max_sequence_length",
}
# Fixed arguments of GPT2Backbone, which its config does not contain.
_FIXED = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5}
_ATTENTION = "_self_attention_layer"
_LAYER = {
    "attn.c_attn": [f"{_ATTENTION}/{name}_dense" for name in ("query", "key", "value")],
    "attn.c_proj": [f"{_ATTENTION}/output_dense"],
    "mlp.c_fc": ["_feedforward_intermediate_dense"],
    "mlp.c_proj": ["_feedforward_output_dense"],
    "ln_1": ["_self_attention_layer_norm"],
    "ln_2": ["_feedforward_layer_norm"],
}
_REST = {"wte": "reversible_embedding", "wpe": "position_embedding", "ln_f": "layer_normalization"}


def read(folder, config=None):
    """Reads a preset.

    Args:
        folder: The folder.
        config: Content of its config.json, if it has been read already.

    Returns:
        A `TrainedModel`; `tokenizer` is None if the preset has none.

    Raises:
        UserError: If a file is damaged, or the tokenizer is not supported.
    """
    path = os.path.join(folder, CONFIG)
    config = (config or read_object(path)).get("config")
    need_fields(config, _FIELDS.values(), path)
    tensors = read_tensors(os.path.join(folder, WEIGHTS))
    architecture = check_architecture(
        FAMILY,
        {ours: config[theirs] for ours, theirs in _FIELDS.items()} | _FIXED,
        path,
        len(tensors.header),
    )
    # Before the tokenizer, as this checks the vocabulary size.
    weights = tensors.take(_layout(architecture))
    return TrainedModel(
        folder,
        FAMILY,
        "causal_lm",
        architecture,
        {},
        weights,
        _tokenizer(folder, architecture["vocabulary_size"]),
        False,
    )


def write(folder, trained):
    """Writes a preset that `keras_hub.models.GPT2Backbone.from_preset` loads.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If KerasHub does not support the model.
    """
    dropout = trained.architecture["dropout"]  # GPT2Backbone has one dropout rate
    check_writable(trained, "KerasHub", **_FIXED, attention_dropout=dropout)
    os.makedirs(os.path.join(folder, os.path.dirname(_FILES[0])), exist_ok=True)
    write_tensors(
        os.path.join(folder, WEIGHTS), split(_layout(trained.architecture), trained.weights)
    )
    trained.tokenizer.without_padding_rows().write(folder, _FILES, title="")
    write_json(
        os.path.join(folder, TOKENIZER),
        object_of(
            "models.gpt2.gpt2_tokenizer",
            "GPT2Tokenizer",
            {
                "name": "gpt2_tokenizer",
                "trainable": True,
                "dtype": "int32",
                "config_file": TOKENIZER,
                "sequence_length": None,
                "add_prefix_space": False,
                "unsplittable_tokens": [END_OF_TEXT],
            },
        ),
    )
    write_config(
        folder,
        "gpt2",
        "GPT2Backbone",
        {theirs: trained.architecture[ours] for ours, theirs in _FIELDS.items()},
    )


def _tokenizer(folder, rows):
    path = os.path.join(folder, TOKENIZER)
    if not os.path.isfile(path):
        return None
    found = read_object(path)
    config = found.get("config")
    if (
        class_of(found) != "keras_hub>GPT2Tokenizer"
        or not isinstance(config, dict)
        or config.get("add_prefix_space")
    ):
        raise UserError(f"{path} must describe a GPT2Tokenizer with add_prefix_space=False")
    return padded_tokenizer(*read_files(folder, [_FILES]), rows, folder)


def _layout(architecture):
    return {
        path: _pieces(name, own, architecture) for path, name, own in model_tensors(architecture)
    }


def _pieces(name, own, architecture):
    stem, _, last = name.rpartition(".")
    variable = {"weight": 0, "bias": 1}[last]
    if stem in _REST:
        return [ExternalTensor(f"layers/{_REST[stem]}/vars/{variable}", own)]
    _, number, rest = stem.split(".", 2)
    layer = f"layers/transformer_decoder{f'_{number}' if number != '0' else ''}"
    hidden_dim, heads = architecture["hidden_dim"], architecture["num_heads"]
    by_head = heads, hidden_dim // heads
    if rest == "attn.c_attn":  # (D, H, S) and (H, S)
        own = (*own[:-1], hidden_dim)
        theirs = (*own[:-1], *by_head)
    else:
        theirs = (*by_head, hidden_dim) if (rest, last) == ("attn.c_proj", "weight") else own
    return [
        ExternalTensor(f"{layer}/{place}/vars/{variable}", theirs, own_shape=own)
        for place in _LAYER[rest]
    ]
