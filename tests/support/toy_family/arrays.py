"""A checkpoint format of the toy family: toy.json, vocab.txt and weights.npz."""

import os

import numpy as np

from keras_attn.checkpoints.architectures import check_architecture
from keras_attn.checkpoints.tensor_map import ExternalTensor, Tensors, split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.io.json_files import read_object, write_json
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.toy_family.family import FAMILY


def read(folder):
    path = os.path.join(folder, "toy.json")
    config = read_object(path)
    with np.load(os.path.join(folder, "weights.npz"), allow_pickle=False) as file:
        arrays = dict(file)
    architecture = check_architecture(FAMILY, config["architecture"], path, len(arrays))
    tensors = Tensors(
        path,
        {name: (array.shape, str(array.dtype)) for name, array in arrays.items()},
        arrays.__getitem__,
    )
    weights = tensors.take(_layout(architecture))
    tokenizer = WordPieceTokenizer.from_file(folder, config["lowercase"])
    return TrainedModel(
        folder,
        FAMILY,
        "masked_lm",
        architecture,
        config["heads"],
        weights,
        tokenizer,
        config["lowercase"],
    )


def write(folder, trained):
    tensors = dict(split(_layout(trained.architecture), trained.weights))
    np.savez(os.path.join(folder, "weights.npz"), **tensors)
    trained.tokenizer.write(folder)
    write_json(
        os.path.join(folder, "toy.json"),
        {
            "architecture": trained.architecture,
            "heads": trained.heads,
            "lowercase": trained.lowercase,
        },
    )


def _layout(architecture):
    rows, width = architecture["vocabulary_size"], architecture["hidden_dim"]
    shapes = {
        "toy_encoder/token_embedding": (rows, width),
        "mlm_bias": (rows,),
        "toy_encoder/mixing/kernel": (width, width),
        "toy_encoder/mixing/bias": (width,),
        "mlm_dense/kernel": (width, width),
        "mlm_dense/bias": (width,),
        "mlm_norm/gamma": (width,),
        "mlm_norm/beta": (width,),
    }
    # Theirs are turned, as those of many libraries.
    return {
        path: [ExternalTensor(path.replace("/", "."), shape[::-1], transposed=len(shape) == 2)]
        for path, shape in shapes.items()
    }
