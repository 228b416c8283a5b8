"""Makes attention_layers.npz: more of what other libraries attend with, with random weights.

The repositories are not ours to copy; give a folder that holds those of README.md by their names,
and have torch, transformers, tensorflow and tf_keras:

    python tests/golden/make_attention_layers.py repositories
"""

import importlib
import os
import pathlib
import sys
import types

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # TensorFlow Addons is of Keras 2

import numpy as np
import tensorflow as tf
import torch
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

RANDOM = np.random.default_rng(1)


def normal(*shape):
    """Numbers that float32 holds."""
    return RANDOM.normal(size=shape).astype("float32").astype("float64")


def shaw(folder):
    """Rows of 9 and 6 that know distances up to 3, by one table for keys and values."""
    without_init("onmt", folder / "OpenNMT-py" / "onmt", "modules")
    module = importlib.import_module("onmt.modules.multi_headed_attn")
    layer = module.MultiHeadedAttention(2, 6, dropout=0.0, is_decoder=False, attn_type="self",
                                        add_qkvbias=True, max_relative_positions=3).double()
    found = {"x": normal(2, 9, 6), "mask": np.arange(9) < np.array([[9], [6]])}
    for name, weight in layer.named_parameters():
        found[name] = normal(*weight.shape)
        weight.copy_(torch.tensor(found[name]))
    x, mask = torch.tensor(found["x"]), torch.tensor(found["mask"])
    found["output"], found["scores"] = layer(x, x, x, ~mask[:, None, None])
    return found


def wrapper(folder):
    """Four steps of an LSTM that is told what it attended to, in rows of 5 and 3."""
    sys.modules["typeguard"] = types.SimpleNamespace(typechecked=lambda function: function)
    without_init("tensorflow_addons", folder / "addons" / "tensorflow_addons", "seq2seq", "rnn",
                 "utils")
    module = importlib.import_module("tensorflow_addons.seq2seq.attention_wrapper")
    found = {"inputs": normal(2, 4, 3), "memory": normal(2, 5, 6),
             "mask": np.arange(5) < np.array([[5], [3]])}
    attention = module.LuongAttention(4, dtype="float64")
    cell = module.AttentionWrapper(tf.keras.layers.LSTMCell(4, dtype="float64"), attention,
                                   attention_layer_size=7, dtype="float64")
    steps = tf.unstack(tf.constant(found["inputs"]), axis=1)
    for _ in range(2):  # the first time makes the weights
        attention([tf.constant(found["memory"]), tf.constant([5, 3])], setup_memory=True)
        state = cell.get_initial_state(batch_size=2, dtype=tf.float64)
        outputs, scores = [], []
        for step in steps:
            output, state = cell(step, state)
            outputs.append(output)
            scores.append(state.alignments)
        if "kernel" in found:
            break
        for name, weight in {
                "memory_kernel": attention.memory_layer.kernel, "kernel": cell._cell.kernel,
                "recurrent_kernel": cell._cell.recurrent_kernel, "bias": cell._cell.bias,
                "attention_kernel": cell._attention_layers[0].kernel}.items():
            found[name] = normal(*weight.shape)
            weight.assign(found[name])
    return found | {"output": tf.stack(outputs, axis=1), "scores": tf.stack(scores, axis=1)}


def abcnn(folder):
    """The first ABCNN on two sequences of six steps. It computes in float32."""
    without_init("model", folder / "ABCNN" / "src" / "model", "attention")
    module = importlib.import_module("model.attention.abcnn1")
    layer = module.ABCNN1Attention(5, 6, False, "euclidean")
    found = {"first": normal(2, 6, 5), "second": normal(2, 6, 5)}
    for name, weight in layer.named_parameters():
        found[name] = normal(*weight.shape)
        weight.copy_(torch.tensor(found[name]))
    outputs = layer(*(torch.tensor(found[name])[:, None].float() for name in ("first", "second")))
    # (B, 2, T, D): a channel of the inputs and one of attention.
    return found | {f"{name}_output": channels.numpy()
                    for name, channels in zip(("first", "second"), outputs, strict=True)}


def marian(folder):
    """Positions 0 to 19."""
    return {"table": MarianSinusoidalPositionalEmbedding(20, 6).create_weight()}


def without_init(name, folder, *parts):
    """A package and some in it whose own `__init__`, which imports much more, does not run."""
    for part in ("", *parts):
        package = types.ModuleType(f"{name}.{part}".rstrip("."))
        package.__path__ = [str(folder / part)]
        sys.modules[package.__name__] = package


def main(folder):
    found = {}
    with torch.no_grad():
        for make in (shaw, wrapper, abcnn, marian):
            for name, array in make(pathlib.Path(folder)).items():
                array = np.asarray(array)
                found[f"{make.__name__}/{name}"] = (
                    array.astype("float32") if array.dtype.kind == "f" else array)
    np.savez_compressed(pathlib.Path(__file__).with_name("attention_layers.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
