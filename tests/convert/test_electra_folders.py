"""ELECTRA of `transformers`: outputs, gradients and folders equal theirs."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from keras_attn import convert
from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.ops.masks import MASKED
from tests.support.quick import quick

FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "electra"
NAMES = (
    "encoder",
    "square",
    "masked_lm",
    "untied",
    "discriminator",
    "classifier",
    "tagger",
    "reader",
)


@pytest.fixture(scope="module")
def arrays():
    with np.load(FOLDER / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def below(arrays, prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def batch_of(arrays, name):
    """The inputs and labels of a model, named as ours."""
    theirs, batch = below(arrays, f"{name}/"), below(arrays, "inputs/")
    if name in ("masked_lm", "untied"):
        labels = theirs["labels"]
        batch["mask_positions"] = np.tile(np.arange(11, dtype=np.int32), (3, 1))
        batch["mask_ids"] = np.maximum(labels, 0)
        batch["mask_weights"] = (labels >= 0).astype(np.float32)
    elif name == "reader":
        batch["label"] = np.stack([theirs["start_positions"], theirs["end_positions"]], axis=1)
    elif "labels" in theirs:
        batch["label"] = np.where(theirs["labels"] < 0, -1, theirs["labels"])
    return batch


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, arrays):
    theirs, batch = below(arrays, f"{name}/"), batch_of(arrays, name)
    found = read_ready(FOLDER / name).make_model()(batch)
    real = batch["padding_mask"] > 0
    own = {"masked_lm": "mlm_logits", "untied": "mlm_logits", "discriminator": "rtd_logits"}
    compared = theirs.keys() & {"sequence_output", "logits", "span_logits"}
    assert len(compared) == (1 if name in ("encoder", "square") else 2)
    for key in compared:
        ours, value = np.asarray(found[own.get(name, key) if key == "logits" else key]), theirs[key]
        if key == "span_logits":  # our logits are of the passage only
            real = ours[:, :, 0] > MASKED
        if value.shape[:2] == real.shape:  # a row or a number per token
            ours, value = ours[real], value[real]
        np.testing.assert_allclose(ours, value, 1e-5, 1e-5, err_msg=key)


def _loss(name, model, batch, arrays):
    if name != "discriminator":
        return model.compute_loss(x=batch, y_pred=model(batch))
    labels = arrays[f"{name}/labels"].astype(np.float32)
    errors = tf.nn.sigmoid_cross_entropy_with_logits(labels, model(batch)["rtd_logits"])
    weights = batch["padding_mask"].astype(np.float32)
    return tf.reduce_sum(errors * weights) / weights.sum()


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("encoder", "square", "reader")]
)
def test_losses_and_gradients_equal_those_of_transformers(name, arrays):
    theirs, batch = below(arrays, f"{name}/"), batch_of(arrays, name)
    trained = read_ready(FOLDER / name)
    model = trained.make_model()
    with tf.GradientTape() as tape:
        loss = _loss(name, model, batch, arrays)
    variables = {v.path.split("/", 1)[1]: v for v in model.trainable_variables}
    gradients = tape.gradient(loss, [v.value for v in variables.values()])
    np.testing.assert_allclose(loss, theirs["loss"], 1e-5)
    expected = below(theirs, "gradients/")
    header = {key: (value.shape, "float32") for key, value in expected.items()}
    folders = trained.family.format("huggingface")
    turned = Tensors(name, header, expected.get).take(folders.layout_of(trained))
    assert turned.keys() == variables.keys()
    for path, gradient in zip(variables, gradients, strict=True):
        found = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(found, turned[path], 1e-5, 1e-5, err_msg=path)


@pytest.mark.parametrize("name", quick(NAMES, "discriminator", "masked_lm"))
def test_a_folder_to_a_workdir_and_back_is_bitwise_identical(name, tmp_path):
    convert.convert(FOLDER / name, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    found, expected = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "back", FOLDER / name)
    )
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].dtype == array.dtype and found[key].tobytes() == array.tobytes(), key
    was, now = (
        json.loads((folder / "config.json").read_text())
        for folder in (FOLDER / name, tmp_path / "back")
    )
    for field in now.keys() & was.keys():
        assert was[field] is None or now[field] == was[field], field
    first, second = (convert.read(folder) for folder in (FOLDER / name, tmp_path / "back"))
    for field in ("kind", "architecture", "heads", "lowercase", "files"):
        assert getattr(first, field) == getattr(second, field), field
    assert first.tokenizer.sha256 == second.tokenizer.sha256


def test_a_released_discriminator_has_no_generator():
    with pytest.raises(UserError, match="requires a generator"):
        from keras_attn.inference.loading import load

        load(FOLDER / "discriminator").fill_mask("a [MASK]")
