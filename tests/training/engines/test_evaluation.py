"""Evaluation counts every example once, for any number of examples and replicas."""

import keras
import numpy as np
import pytest

from keras_attn.data.batches import StreamBatches
from keras_attn.errors import UserError
from tests.support.engines import engine_of

BATCH = 4


class Scale(keras.Model):
    """Model with output 2 x, whose loss is the weighted mean of the output."""

    def build(self, input_shape=None):
        self.factor = self.add_weight(name="factor", shape=(), initializer="ones")
        self.factor.assign(2.0)
        self.built = True

    def call(self, batch, training=None):
        return {"value": batch["x"] * self.factor + (1000.0 if training else 0.0)}

    def loss_weights(self, batch):
        return {"mean": keras.ops.sum(batch["sample_weight"]), "none": keras.ops.zeros(())}

    def loss_errors(self, outputs, batch):
        return {
            "mean": keras.ops.sum(outputs["value"] * batch["sample_weight"]),
            "none": keras.ops.zeros(()),
        }

    def metric_sums(self, outputs, batch):
        large = keras.ops.cast(outputs["value"] > 5, "float32")
        return {
            "large": (
                keras.ops.sum(large * batch["sample_weight"]),
                keras.ops.sum(batch["sample_weight"]),
            ),
            "unscaled_loss": (keras.ops.ones(()), keras.ops.ones(())),  # a metric
        }


class Values:
    def __init__(self, num_examples):
        self.num_examples = num_examples
        self.values = np.random.default_rng(0).normal(5, 3, num_examples).astype(np.float32)

    def rows(self, start, stop):
        return {"x": self.values[start:stop]}


@pytest.fixture(scope="module", params=[(1, False), (2, False), (2, True)], ids=str)
def evaluator(request):
    replicas, jit = request.param
    engine = engine_of(replicas)
    with engine.scope():
        model = Scale()
        model.build()
    return engine.make_evaluator(model, jit=jit, rows="value")


def test_rows_of_batches_with_different_lengths_are_padded():
    class Lengths:
        batch_size, num_examples, num_batches, one_length, one_count = 2, 3, 2, False, True

        def batch(self, index, first, last):
            rows = np.arange(1, 7, dtype=np.float32).reshape(2, 3)[:, : 3 - index] + 10 * index
            return {
                "x": rows[first:last, :, None],
                "sample_weight": np.ones(last - first, np.float32),
            }

    model = Scale()
    model.build()
    evaluator = engine_of().make_evaluator(model, rows="value")
    _, rows = evaluator.run(Lengths())
    np.testing.assert_array_equal(
        rows[:, :, 0] / 2, [[1, 2, 3], [4, 5, 6], [11, 12, 0], [14, 15, 0]]
    )


def test_stop_ends_the_evaluation_between_batches(evaluator):
    batches = StreamBatches(Values(11), BATCH, once=True)
    asked = []
    assert evaluator.run(batches, lambda: asked.append(1) or len(asked) == 2) is None
    assert len(asked) == 2


@pytest.mark.parametrize("good", [0, BATCH, 2 * BATCH])
def test_damaged_data_end_the_evaluation_with_the_original_error(evaluator, good):
    class Damaged(Values):
        def rows(self, start, stop):
            if stop > max(good, 1):  # the first row is read before the evaluation
                raise UserError("The shard must be whole. Received: a.npz")
            return super().rows(start, stop)

    batches = StreamBatches(Damaged(11), BATCH, once=True)
    with pytest.raises(UserError, match=r"whole\. Received: a\.npz$"):
        evaluator.run(batches)


@pytest.mark.parametrize("examples", [1, 3, 4, 5, 8, 11])
def test_every_example_counts_once_and_rows_keep_their_order(evaluator, examples):
    source = Values(examples)
    batches = StreamBatches(source, BATCH, once=True)
    results, rows = evaluator.run(batches)
    wanted = 2.0 * source.values.astype(np.float64)
    np.testing.assert_allclose(rows[:examples], wanted, rtol=1e-6)
    assert results["mean_loss"] == pytest.approx(wanted.mean(), rel=1e-6)
    assert results["none_loss"] == 0.0 and results["loss"] == results["mean_loss"]
    assert results["large"] == pytest.approx((wanted > 5).mean())
