"""ELECTRA of `transformers`: outputs, gradients and folders equal theirs."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from tests.support.quick import quick
from tests.support.transformers_folders import (
    below,
    check_gradients,
    check_outputs,
    check_written_back,
    masked_lm_entries,
)

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


def batch_of(arrays, name):
    """The inputs and labels of a model, named as ours."""
    theirs, batch = below(arrays, f"{name}/"), below(arrays, "inputs/")
    if name in ("masked_lm", "untied"):
        batch |= masked_lm_entries(theirs["labels"])
    elif name == "reader":
        batch["label"] = np.stack([theirs["start_positions"], theirs["end_positions"]], axis=1)
    elif "labels" in theirs:
        batch["label"] = np.where(theirs["labels"] < 0, -1, theirs["labels"])
    return batch


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, arrays):
    theirs, batch = below(arrays, f"{name}/"), batch_of(arrays, name)
    found = read_ready(FOLDER / name).make_model()(batch)
    own = {"masked_lm": "mlm_logits", "untied": "mlm_logits", "discriminator": "rtd_logits"}
    names = {"logits": own[name]} if name in own else {}
    check_outputs(found, theirs, batch, names, 1 if name in ("encoder", "square") else 2)


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
    check_gradients(
        read_ready(FOLDER / name),
        lambda model: _loss(name, model, batch, arrays),
        theirs["loss"],
        below(theirs, "gradients/"),
    )


@pytest.mark.parametrize("name", quick(NAMES, "discriminator", "masked_lm"))
def test_a_folder_to_a_workdir_and_back_is_bitwise_identical(name, tmp_path):
    check_written_back(FOLDER / name, tmp_path)


def test_a_released_discriminator_has_no_generator():
    with pytest.raises(UserError, match="requires a generator"):
        from keras_attn.inference.loading import load

        load(FOLDER / "discriminator").fill_mask("a [MASK]")
