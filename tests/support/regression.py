"""A linear regression with weighted rows, and rows of a small BERT, for tests of training steps."""

import keras
import numpy as np

ROWS, RATE = 8, 0.1


class Regression(keras.Model):
    """Two losses: weighted squared error, and one whose rows all weigh 0."""

    def build(self, input_shape=None):
        self.slope = self.add_weight(name="slope", shape=(3,), initializer="ones")
        self.built = True

    def call(self, batch, training=None):
        return {"value": keras.ops.matmul(batch["x"], self.slope)}

    def loss_weights(self, batch):
        return {"square": keras.ops.sum(batch["weight"]), "absent": keras.ops.sum(batch["none"])}

    def loss_errors(self, outputs, batch):
        error = outputs["value"] - batch["label"]
        return {
            "square": keras.ops.sum(batch["weight"] * error**2),
            "absent": keras.ops.sum(batch["none"] * error),
        }

    def metric_sums(self, outputs, batch):
        near = keras.ops.cast(keras.ops.abs(outputs["value"] - batch["label"]) < 1, "float32")
        return {"accuracy": (keras.ops.sum(near * batch["weight"]), keras.ops.sum(batch["weight"]))}


class Examples:
    """Random rows; row `poison` holds a NaN."""

    num_examples = 1000

    def __init__(self, poison=None):
        random = np.random.default_rng(0)
        self.arrays = {
            "x": random.normal(size=(1000, 3)).astype(np.float32),
            "label": random.normal(size=1000).astype(np.float32),
            "weight": random.integers(0, 3, 1000).astype(np.float32),
            "none": np.zeros(1000, np.float32),
            "padding_mask": np.ones((1000, 2), np.int32),
        }
        if poison is not None:
            self.arrays["x"][poison] = np.nan

    def rows(self, start, stop):
        return {name: array[start:stop] for name, array in self.arrays.items()}


class SGD(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None, factor=1.0):
        super().apply([gradient * factor for gradient in grads], trainable_variables)


class BertRows:
    """Random rows for a BERT with 50 subwords."""

    num_examples = 4 * ROWS

    def rows(self, start, stop):
        random = np.random.default_rng(start)
        rows = stop - start
        return {
            "token_ids": random.integers(5, 50, (rows, 12), dtype=np.int32),
            "segment_ids": random.integers(0, 2, (rows, 12), dtype=np.int32),
            "padding_mask": np.ones((rows, 12), np.int32),
            "mask_positions": random.integers(0, 12, (rows, 3), dtype=np.int32),
            "mask_ids": random.integers(5, 50, (rows, 3), dtype=np.int32),
            "mask_weights": np.ones((rows, 3), np.float32),
            "next_sentence_label": random.integers(0, 2, rows, dtype=np.int32),
        }


class PairsOfTexts:
    """Two texts per row, and scores; the last row of a batch is padding."""

    num_examples = ROWS

    def rows(self, start, stop):
        rows = np.arange(start, stop)
        ids = 1 + (rows[:, None, None] * 5 + np.arange(2)[:, None] * 3 + np.arange(4)) % 11
        return {
            "token_ids": ids.astype(np.int32),
            "padding_mask": np.ones_like(ids, np.int32),
            "label": (rows % ROWS / ROWS).astype(np.float32),
            "sample_weight": (rows % ROWS < ROWS - 1).astype(np.float32),
        }
