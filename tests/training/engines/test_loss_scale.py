"""Loss scaling of float16: all replicas skip a step that overflows, and no other step."""

import keras
import numpy as np
import pytest

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.variables import assign_values, read_values
from tests.support.engines import step_of
from tests.support.regression import RATE, ROWS, BertRows, Examples, Regression


class HalfRegression(Regression):
    """Computes the product in float16."""

    def __init__(self):
        super().__init__(dtype="mixed_float16", name="half")

    def call(self, batch, training=None):
        x, slope = (keras.ops.cast(v, "float16") for v in (batch["x"], self.slope))
        return {"value": keras.ops.cast(keras.ops.matmul(x, slope), "float32")}


def _numpy_step(slope, data, number):
    rows = slice(number * ROWS, (number + 1) * ROWS)
    x, label, weight = (data[k][rows].astype(np.float64) for k in ("x", "label", "weight"))
    return slope - RATE * 2 * x.T @ (weight * (x @ slope - label)) / weight.sum()


@pytest.mark.parametrize(
    ("replicas", "accumulate", "jit"), [(1, 1, False), (2, 1, False), (2, 2, True)]
)
def test_steps_that_overflow_are_skipped_and_the_others_equal_numpy(replicas, accumulate, jit):
    source = Examples()
    # Only the last replica has row 7; the others must also skip the step.
    source.arrays["label"][ROWS - 1] = 400.0
    source.arrays["weight"][ROWS - 1] = 1.0
    step, feed = step_of(
        HalfRegression, source, replicas, accumulate=accumulate, jit=jit, clip_norm=None
    )
    rows = step.run(feed, 0, np.full(6, RATE))
    assert [row["skipped"] for row in rows] == [1, 0, 0, 0, 0, 0]
    assert [row["loss_scale"] for row in rows] == [2.0**15] + [2.0**14] * 5
    assert rows[0]["gradient_norm"] == 0 and np.isfinite(rows[0]["loss"])
    slope = np.ones(3)
    for number in range(1, 6):
        slope = _numpy_step(slope, source.arrays, number)
    np.testing.assert_allclose(step.model.slope.numpy(), slope, rtol=5e-3)
    assert step.optimizer.iterations.numpy() == 5


def test_the_run_stops_if_no_scale_prevents_overflow():
    source = Examples()
    source.arrays["label"][:] = (
        1e6  # the gradient is twice as large; the maximum of float16 is 65,504
    )
    step, feed = step_of(HalfRegression, source)
    rows = step.run(feed, 0, np.full(20, RATE))
    assert [row["loss_scale"] for row in rows] == [2.0**k for k in range(15, -1, -1)]
    assert not np.isfinite(rows[-1]["gradient_norm"])
    np.testing.assert_array_equal(step.model.slope.numpy(), np.ones(3))


def test_the_scale_rises_after_2000_finite_steps_and_is_saved_in_checkpoints():
    step, feed = step_of(HalfRegression, Examples())
    step.loss_scale.value.assign(64.0)
    step.loss_scale.good_steps.assign(1998)
    scales = [row["loss_scale"] for row in step.run(feed, 0, np.full(4, RATE))]
    assert scales == [64, 64, 128, 128]
    saved = read_values(step.variables())
    other, _ = step_of(HalfRegression, Examples())
    assign_values(other.variables(), saved, "It")
    assert other.loss_scale.value.numpy() == 128 and other.loss_scale.good_steps.numpy() == 2


@pytest.mark.thorough
def test_bert_learns_in_float16_as_in_float32():
    def bert(policy):
        def make():
            backbone = BertEncoder(50, 1, 8, 2, dropout=0.0, max_length=16, seed=1, dtype=policy)
            return BertPretrainer(backbone, dtype=policy)

        return make

    losses = {}
    for policy in ("float32", "mixed_float16"):
        step, feed = step_of(bert(policy), BertRows())
        losses[policy] = [row["loss"] for row in step.run(feed, 0, np.full(20, RATE))]
        assert (step.loss_scale is None) == (policy == "float32")
    np.testing.assert_allclose(losses["mixed_float16"], losses["float32"], rtol=2e-3)
    assert losses["float32"][-1] < losses["float32"][0]
