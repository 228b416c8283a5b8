"""Checkpoints of zihangdai/xlnet: TensorFlow 1's files, xlnet_config.json, spiece.model."""

import os
import re
from reprlib import repr as shorten

from keras_attn.checkpoints.architectures import (
    check_architecture,
    need_fields,
    read_activation,
    written_activation,
)
from keras_attn.checkpoints.sentence_piece_files import read_tokenizer
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.tensorflow_files import (
    folder_and_name,
    read_lowercase,
    read_tensors,
    slots,
    write_tensors,
)
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.errors import UserError
from keras_attn.families.xlnet.family import FAMILY
from keras_attn.families.xlnet.tensors import check_writable, is_output, model_tensors
from keras_attn.io.json_files import read_object, write_json

CONFIG, PREFIX = "xlnet_config.json", "xlnet_model.ckpt"
_FIELDS = {
    "vocabulary_size": "n_token",
    "num_layers": "n_layer",
    "hidden_dim": "d_model",
    "num_heads": "n_head",
    "intermediate_dim": "d_inner",
}
# Unlike in transformers, "gelu" is the approximation with tanh.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}
_EPSILON = 1e-12  # of tf.contrib.layers.layer_norm
_NAMES = (
    (r"^transformer\.layer\.(\d+)\.", r"transformer.layer_\1."),
    (r"\.word_embedding\.weight$", ".word_embedding.lookup_table"),
    (r"\.mask_emb$", ".mask_emb.mask_emb"),
    (r"\.([qkvor])$", r".\1.kernel"),
    (r"\.layer_norm\.weight$", ".LayerNorm.gamma"),
    (r"\.layer_norm\.bias$", ".LayerNorm.beta"),
    (r"\.weight$", ".kernel"),
    (r"\.", "/"),
)
# Tensors that contain all layers.
_STACKED = re.compile(r"transformer\.layer\.(\d+)\.rel_attn\.(seg_embed|r_[wrs]_bias)")


def read(folder):
    """Reads a folder, or one of several checkpoints in it by its name without `.index`.

    Returns:
        A `TrainedModel`; `lowercase` is None unless `write` wrote the folder.

    Raises:
        UserError: If a file is missing, damaged or not from a pretrained XLNet.
    """
    folder, name = folder_and_name(folder)
    path = os.path.join(folder, CONFIG)
    config = read_object(path)
    need_fields(config, (*_FIELDS.values(), "ff_activation", "untie_r"), path)
    activation = read_activation(config, "ff_activation", _ACTIVATIONS, path)
    if config["untie_r"] is not True:
        raise UserError(f"untie_r must be true. Received: {shorten(config['untie_r'])} in {path}")
    lowercase = read_lowercase(config, path)
    tensors = read_tensors(folder, name)
    architecture = check_architecture(
        FAMILY,
        {
            **{ours: config[theirs] for ours, theirs in _FIELDS.items()},
            "activation": activation,
            "layer_norm_epsilon": _EPSILON,
        },
        path,
        len(tensors.header),
    )
    weights = tensors.take(_layout(architecture), slots(tensors.header))
    tokenizer, lowercase = read_tokenizer(folder, architecture["vocabulary_size"], lowercase)
    return TrainedModel(
        folder, FAMILY, "permutation_lm", architecture, {}, weights, tokenizer, lowercase
    )


def write(folder, trained):
    """Writes a folder that zihangdai/xlnet reads.

    xlnet_config.json gets the additional field `do_lower_case`, which is a flag in the scripts of
    zihangdai/xlnet.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If zihangdai/xlnet does not support the model.
    """
    if trained.task != "permutation_lm":
        raise UserError(
            "zihangdai/xlnet supports only permutation language models. "
            f"Received: a model for {trained.task}"
        )
    # Clamping of distances is a flag in zihangdai/xlnet, which its folders do not contain.
    check_writable(trained, "zihangdai/xlnet", layer_norm_epsilon=_EPSILON, max_distance=None)
    architecture = trained.architecture
    activation = written_activation(architecture, _ACTIVATIONS, "zihangdai/xlnet")
    write_tensors(os.path.join(folder, PREFIX), split(_layout(architecture), trained.weights))
    trained.tokenizer.write(folder)
    write_json(
        os.path.join(folder, CONFIG),
        {
            **{theirs: architecture[ours] for ours, theirs in _FIELDS.items()},
            "d_head": architecture["hidden_dim"] // architecture["num_heads"],
            "ff_activation": activation,
            "untie_r": True,
            "do_lower_case": trained.lowercase,
        },
    )


def _layout(architecture):
    layers = architecture["num_layers"]
    encoder = {
        path: [_piece(name, own, theirs or own, layers) for name in names]
        for path, names, own, theirs in model_tensors(architecture)
    }
    bias = ExternalTensor("model/lm_loss/bias", (architecture["vocabulary_size"],))
    return {**encoder, "output_bias": [bias]}


def _piece(name, own, theirs, layers):
    stacked, transposed = _STACKED.fullmatch(name), is_output(name)
    if stacked:
        return ExternalTensor(
            f"model/transformer/{stacked[2]}", (layers, *theirs), own_shape=own, row=int(stacked[1])
        )
    for pattern, new in _NAMES:
        name = re.sub(pattern, new, name)
    return ExternalTensor(f"model/{name}", theirs, transposed=transposed, own_shape=own)
