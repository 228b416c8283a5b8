"""Comparison of models in folders of `transformers` with outputs and gradients that it computed."""

import json

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file

from keras_attn import convert
from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.ops.masks import MASKED


def below(arrays, prefix):
    """The arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def masked_lm_entries(labels):
    """The entries of a batch in which every position is a target slot; -100 is no target."""
    return {
        "mask_positions": np.tile(np.arange(labels.shape[1], dtype=np.int32), (len(labels), 1)),
        "mask_ids": np.maximum(labels, 0),
        "mask_weights": (labels >= 0).astype(np.float32),
    }


def check_outputs(found, theirs, batch, names, count):
    """The outputs of real tokens equal theirs; `names` are our names of outputs, if others.

    Args:
        count: How many outputs there are to compare.
    """
    compared = theirs.keys() & {"sequence_output", "pooled_output", "logits", "span_logits"}
    assert len(compared) == count
    for key in compared:
        real = batch["padding_mask"] > 0
        ours, value = np.asarray(found[names.get(key, key)]), theirs[key]
        if key == "span_logits":  # our logits are of the passage only
            real = ours[:, :, 0] > MASKED
        if value.shape[:2] == real.shape:  # a row or a number per token
            ours, value = ours[real], value[real]
        np.testing.assert_allclose(ours, value, 1e-5, 1e-5, err_msg=key)


def check_gradients(trained, loss_of, expected_loss, expected):
    """Loss and gradients of all weights equal theirs.

    Args:
        trained: `TrainedModel`.
        loss_of: Function of the model that returns the loss.
        expected_loss: Their loss.
        expected: Their gradients by the names of their weights.
    """
    model = trained.make_model()
    with tf.GradientTape() as tape:
        loss = loss_of(model)
    variables = {v.path.split("/", 1)[1]: v for v in model.trainable_variables}
    gradients = tape.gradient(loss, [v.value for v in variables.values()])
    np.testing.assert_allclose(loss, expected_loss, 1e-5)
    header = {key: (value.shape, "float32") for key, value in expected.items()}
    folders = trained.family.format("huggingface")
    turned = Tensors(trained.path, header, expected.get).take(folders.layout_of(trained))
    assert turned.keys() == variables.keys()
    for path, gradient in zip(variables, gradients, strict=True):
        found = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(found, turned[path], 1e-5, 1e-5, err_msg=path)


def check_same_bits(found, expected):
    """Two dicts hold the same arrays."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


def check_written_back(folder, tmp_path):
    """A folder that becomes a workdir, and a folder again, is the same."""
    convert.convert(folder, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    pair = tmp_path / "back", folder
    check_same_bits(*(load_file(one / "model.safetensors") for one in pair))
    now, was = (json.loads((one / "config.json").read_text()) for one in pair)
    for field in now.keys() & was.keys():
        assert was[field] is None or now[field] == was[field], field
    first, second = map(convert.read, pair)
    for field in ("kind", "architecture", "heads", "lowercase", "files"):
        assert getattr(first, field) == getattr(second, field), field
    assert first.tokenizer.sha256 == second.tokenizer.sha256
