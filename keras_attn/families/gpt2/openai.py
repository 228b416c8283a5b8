"""Checkpoints of openai/gpt-2: TensorFlow 1's files, hparams.json, encoder.json, vocab.bpe."""

import os
import re

from keras_attn.checkpoints.architectures import check_architecture, need_fields
from keras_attn.checkpoints.byte_pair_files import padded_tokenizer
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.tensorflow_files import (
    folder_and_name,
    read_tensors,
    slots,
    write_tensors,
)
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.families.gpt2.family import FAMILY
from keras_attn.families.gpt2.tensors import check_writable, model_tensors
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.json_files import read_object, write_json
from keras_attn.text.byte_pairs import FILES, read_files

CONFIG, PREFIX = "hparams.json", "model.ckpt"
_FIELDS = {
    "vocabulary_size": "n_vocab",
    "num_layers": "n_layer",
    "hidden_dim": "n_embd",
    "num_heads": "n_head",
    "max_length": "n_ctx",
}
# Fixed arguments of openai/gpt-2, which hparams.json does not contain.
_FIXED = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5}
_NAMES = (
    (r"^h\.(\d+)\.", r"h\1."),
    (r"(\.ln_.|^ln_f)\.weight$", r"\1.g"),
    (r"(wte|wpe)\.weight$", r"\1"),
    (r"\.weight$", ".w"),
    (r"\.bias$", ".b"),
    (r"\.", "/"),
)


def read(folder):
    """Reads a folder, or one of several checkpoints in it by its name without `.index`.

    Returns:
        A `TrainedModel`.

    Raises:
        UserError: If a file is missing, damaged or not from a GPT-2.
    """
    folder, name = folder_and_name(folder)
    path = os.path.join(folder, CONFIG)
    config = read_object(path)
    need_fields(config, _FIELDS.values(), path)
    tensors = read_tensors(folder, name)
    architecture = check_architecture(
        FAMILY,
        {ours: config[theirs] for ours, theirs in _FIELDS.items()} | _FIXED,
        path,
        len(tensors.header),
    )
    weights = tensors.take(_layout(architecture), slots(tensors.header))
    tokenizer = padded_tokenizer(*read_files(folder), architecture["vocabulary_size"], folder)
    return TrainedModel(folder, FAMILY, "causal_lm", architecture, {}, weights, tokenizer, False)


def write(folder, trained):
    """Writes a folder that openai/gpt-2 reads.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If openai/gpt-2 does not support the model.
    """
    check_writable(trained, "openai/gpt-2", **_FIXED, **{"intermediate_dim / hidden_dim": 4.0})
    write_tensors(
        os.path.join(folder, PREFIX), split(_layout(trained.architecture), trained.weights)
    )
    # openai/gpt-2 finds the newest checkpoint by this file.
    atomic_write(
        os.path.join(folder, "checkpoint"), f'model_checkpoint_path: "{PREFIX}"\n'.encode()
    )
    trained.tokenizer.without_padding_rows().write(folder, FILES[1])
    write_json(
        os.path.join(folder, CONFIG),
        {theirs: trained.architecture[ours] for ours, theirs in _FIELDS.items()},
    )


def _layout(architecture):
    return {path: [_piece(name, shape)] for path, name, shape in model_tensors(architecture)}


def _piece(name, own):
    # Kernels have the shape of convolutions with kernel size 1.
    matrix = len(own) == 2 and not name.startswith("w")
    for pattern, theirs in _NAMES:
        name = re.sub(pattern, theirs, name)
    return ExternalTensor(f"model/{name}", (1, *own) if matrix else own, own_shape=own)
