"""Updates equal NumPy on every engine; randomness and stopping of the step."""

import keras
import numpy as np
import pytest

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.models.text_embedder import TextEmbedder
from tests.support.engines import step_of
from tests.support.quick import quick
from tests.support.regression import RATE, ROWS, BertRows, Examples, PairsOfTexts, Regression

WIDTH = 64


class Dropped(keras.Model):
    """Model whose gradient of weight row r is the dropout mask of row r of the batch."""

    def build(self, input_shape=None):
        self.table = self.add_weight(name="table", shape=(ROWS, WIDTH), initializer="zeros")
        self.generator = keras.random.SeedGenerator(7)
        self.built = True

    def call(self, batch, training=None):
        rows = keras.ops.take(self.table, batch["row"], axis=0)
        return {"value": keras.random.dropout(rows, 0.5, seed=self.generator)}

    def loss_weights(self, batch):
        return {"all": keras.ops.sum(batch["one"])}

    def loss_errors(self, outputs, batch):
        return {"all": keras.ops.sum(outputs["value"])}

    def metric_sums(self, outputs, batch):
        return {}


class RowNumbers:
    num_examples = ROWS

    def rows(self, start, stop):
        return {
            "row": np.arange(start, stop, dtype=np.int32) % ROWS,
            "one": np.ones(stop - start, np.float32),
            "padding_mask": np.ones((stop - start, 1), np.int32),
        }


def _numpy_steps(count, clip_norm):
    data, slope, records = Examples().arrays, np.ones(3), []
    for step in range(count):
        rows = slice(step * ROWS, (step + 1) * ROWS)
        x, label, weight = (data[k][rows].astype(np.float64) for k in ("x", "label", "weight"))
        error = x @ slope - label
        gradient = 2 * x.T @ (weight * error) / weight.sum()
        norm = np.linalg.norm(gradient)
        records.append(
            (weight @ error**2 / weight.sum(), norm, weight @ (np.abs(error) < 1) / weight.sum())
        )
        if clip_norm:
            gradient *= min(1.0, clip_norm / norm)
        slope = slope - RATE * gradient
    return slope, records


@pytest.mark.parametrize(
    ("replicas", "accumulate", "jit", "clip_norm"),
    [
        (1, 1, False, 0.5),
        (1, 4, True, 0.5),
        (2, 1, True, 0.5),
        (2, 2, False, 0.5),
        (2, 4, True, 0.5),
        (1, 2, False, None),
    ],
)
def test_updates_equal_numpy_for_any_split_of_the_batch(replicas, accumulate, jit, clip_norm):
    step, feed = step_of(
        Regression, Examples(), replicas, accumulate=accumulate, jit=jit, clip_norm=clip_norm
    )
    slope, records = _numpy_steps(5, clip_norm)
    rows = step.run(feed, 0, np.full(2, RATE)) + step.run(feed, 2, np.full(3, RATE))
    np.testing.assert_allclose(step.model.slope.numpy(), slope, rtol=1e-5)
    for row, (loss, norm, accuracy) in zip(rows, records, strict=True):
        assert row["loss"] == pytest.approx(loss, rel=1e-5)
        assert row["square_loss"] == row["loss"] and row["absent_loss"] == 0.0
        assert row["gradient_norm"] == pytest.approx(norm, rel=1e-5)
        assert row["accuracy"] == pytest.approx(accuracy, abs=1e-6)
        assert row["tokens"] == 2 * ROWS
    assert records[0][1] > 0.5, "the first gradient must be one that is clipped"


def test_calls_of_any_length_run_the_same_steps():
    step, feed = step_of(Regression, Examples())
    for first, length in ((0, 1), (1, 3), (4, 2), (6, 5)):
        step.run(feed, first, np.full(length, RATE))
    np.testing.assert_allclose(step.model.slope.numpy(), _numpy_steps(11, 1.0)[0], rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_not_finite_is_reported_not_applied_and_the_last(replicas):
    step, feed = step_of(Regression, Examples(poison=2 * ROWS + 7), replicas, clip_norm=0.5)
    rows = step.run(feed, 0, np.full(5, RATE))
    assert len(rows) == 3
    assert np.isfinite(rows[1]["loss"]) and np.isnan(rows[2]["loss"])
    np.testing.assert_allclose(step.model.slope.numpy(), _numpy_steps(2, 0.5)[0], rtol=1e-5)
    assert step.optimizer.iterations.numpy() == 2


def test_an_infinite_gradient_of_a_finite_loss_is_not_applied():
    source = Examples()
    source.arrays["x"][:] = 1e19  # the loss is 0, and the norm of the gradient overflows
    source.arrays["label"][:] = np.float32(3e19)
    source.arrays["label"][0] = np.float32(2e19)
    source.arrays["weight"][:] = 1e-2
    step, feed = step_of(Regression, source)
    rows = step.run(feed, 0, np.full(2, RATE))
    assert len(rows) == 1 and not np.isfinite(rows[0]["gradient_norm"])
    np.testing.assert_array_equal(step.model.slope.numpy(), np.ones(3))


def _masks(replicas, accumulate, seed=1, jit=False, steps=2):
    """Returns the dropout mask of each row in each step: `(steps, ROWS, WIDTH)`."""
    step, feed = step_of(
        Dropped, RowNumbers(), replicas, accumulate=accumulate, jit=jit, clip_norm=None, seed=seed
    )
    masks, before = [], step.model.table.numpy()
    for number in range(steps):
        step.run(feed, number, np.ones(1))
        masks.append(before - step.model.table.numpy() > 0)
        before = step.model.table.numpy()
    return np.stack(masks)


@pytest.mark.parametrize("jit", [False, True])
def test_rows_micro_batches_replicas_and_steps_have_different_masks(jit):
    masks = _masks(2, 2, jit=jit).reshape(-1, WIDTH)
    assert len({mask.tobytes() for mask in masks}) == 2 * ROWS
    assert 0.4 < masks.mean() < 0.6


def test_masks_depend_on_the_seed():
    first = _masks(1, 2)
    np.testing.assert_array_equal(first, _masks(1, 2))
    assert not np.array_equal(first, _masks(1, 2, seed=2))


class PairsWithTeacher(PairsOfTexts):
    def rows(self, start, stop):
        numbers = np.arange(2 * start, 2 * stop, dtype=np.int32).reshape(-1, 2) % (2 * ROWS)
        vectors = np.sin(1.0 + numbers[..., None] * np.arange(1, 4)).astype(np.float32)
        teacher = {"teacher_embedding": vectors, "text_numbers": numbers}
        return {**super().rows(start, stop), **teacher}


@pytest.mark.parametrize(
    "loss, source",
    quick(
        [
            ("in_batch_negatives", PairsOfTexts),
            ("cosent", PairsOfTexts),
            ("cosine", PairsWithTeacher),
        ],
        ("in_batch_negatives", PairsOfTexts),
    ),
)
def test_in_batch_losses_are_of_the_global_batch_for_any_split(loss, source):
    def model():
        backbone = BertEncoder(12, 1, 8, 2, dropout=0.0, use_pooler=False, seed=0)
        return TextEmbedder(
            backbone,
            loss=loss,
            symmetric=loss != "cosent",
            distillation=0.5 * (source is PairsWithTeacher),
            seed=1,
        )

    found = {}
    for replicas, accumulate, jit in ((1, 1, False), (2, 1, False), (1, 4, True), (2, 2, False)):
        step, feed = step_of(model, source(), replicas, accumulate=accumulate, jit=jit)
        records = step.run(feed, 0, [0.5, 0.5])
        values = [record["loss"] for record in records]
        weights = np.concatenate([np.ravel(v) for v in step.model.trainable_variables])
        found[replicas, accumulate] = np.array(values), weights
    for losses, weights in found.values():
        np.testing.assert_allclose(losses, found[1, 1][0], 1e-5)
        np.testing.assert_allclose(weights, found[1, 1][1], 1e-4, 1e-6)
    assert found[1, 1][0][1] < found[1, 1][0][0]


class SameBertRows(BertRows):
    """Rows that do not depend on how they are split."""

    def rows(self, start, stop):
        return {name: x[start:stop] for name, x in super().rows(0, self.num_examples).items()}


@pytest.mark.thorough
def test_a_teacher_runs_in_the_step_of_all_devices():
    def model():
        student, teacher = (
            BertPretrainer(
                BertEncoder(50, 1, size, 2, dropout=0.0, use_pooler=False, seed=seed),
                next_sentence=False,
                distillation=0.5,
            )
            for seed, size in ((0, 8), (1, 12))
        )
        teacher.build()
        student.set_teacher(teacher)
        return student

    found, fixed = {}, {}
    for split in ((1, 1, False), (2, 1, True), (1, 4, True), (2, 2, False)):
        replicas, accumulate, jit = split
        step, feed = step_of(model, SameBertRows(), replicas, accumulate=accumulate, jit=jit)
        losses = [record["mlm_loss"] for record in step.run(feed, 0, [0.5, 0.5])]
        assert len(step.variables()) == len(step.model.trainable_variables) + 1  # and the iteration
        found[split] = losses, np.concatenate([np.ravel(v) for v in step.model.trainable_variables])
        fixed[split] = np.concatenate([np.ravel(v) for v in step.model.constants])
    losses, weights = found[1, 1, False]
    assert losses[0] == pytest.approx(0.5 * np.log(50), abs=0.1)  # neither has learnt anything
    for split in found:
        np.testing.assert_allclose(found[split][0], losses, 1e-5)
        np.testing.assert_allclose(found[split][1], weights, 1e-4, 1e-6)
        np.testing.assert_array_equal(fixed[split], fixed[1, 1, False])


@pytest.mark.parametrize("dtype", quick(["float32", "mixed_bfloat16"]))
def test_both_passes_of_an_in_batch_loss_have_the_same_dropout(dtype):
    """With other masks, the gathered rows would differ from those that are differentiated."""
    parts = ROWS // 2

    class Recorded(TextEmbedder):
        def metric_sums(self, outputs, batch):
            own = outputs["embedding"]
            start = batch["gathered_start"], 0, 0
            rows = keras.ops.slice(batch["gathered_embedding"], start, own.shape)
            # Sums of the micro-batches' differences.
            return {"difference": (keras.ops.max(keras.ops.abs(rows - own)), 1.0 / parts)}

    backbone = BertEncoder(12, 1, 8, 2, dropout=0.5, use_pooler=False, seed=0, dtype=dtype)
    step, feed = step_of(
        lambda: Recorded(backbone, seed=1, dtype=dtype), PairsOfTexts(), accumulate=parts
    )
    (record,) = step.run(feed, 0, [0.1])
    assert np.isfinite(record["loss"])
    assert record["difference"] < (1e-2 if dtype != "float32" else 1e-5)
