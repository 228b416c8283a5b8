"""The engine contract without devices: NumPy's gradient of `support.regression.Regression`."""

import keras
import numpy as np

from keras_attn.training.engines.contract import Engine, Evaluator, Step
from keras_attn.training.variables import variables_by_path


class NumPyEngine(Engine):
    def __init__(self, floats="float64"):
        self.floats = floats

    def describe(self):
        return "1 x NumPy"

    def free_memory(self):
        return None

    def peak_memory(self):
        return None

    def make_optimizer(self, name, model, **options):
        return keras.Variable(0, dtype="int64", name="steps")

    def make_step(self, model, optimizer, **options):
        return NumPyStep(self, model, optimizer, **options)

    def make_evaluator(self, model, **options):
        return NumPyEvaluator(model, **options)


ENGINE = NumPyEngine


class NumPyStep(Step):
    def __init__(self, engine, model, optimizer, *, accumulate=1, clip_norm=1.0, jit=False, seed=0):
        self.engine, self.model, self.optimizer, self.clip_norm = (
            engine,
            model,
            optimizer,
            clip_norm,
        )

    def variables(self):
        return {**variables_by_path(self.model), "optimizer/steps": self.optimizer}

    def feed(self, batches, first_step):
        return batches

    def run(self, feed, first_step, learning_rates):
        records = []
        for number, rate in enumerate(learning_rates, first_step):
            batch = feed.batch(number, 0, feed.batch_size)
            slope = weights_of(self.model).astype(self.engine.floats)
            errors, weight, hits = sums_of(slope, batch)
            inputs = batch["x"].T.astype(self.engine.floats)
            gradient = 2 * inputs @ (batch["weight"] * errors) / weight
            norm = float(np.linalg.norm(gradient))
            loss = float(batch["weight"] @ errors**2 / weight)
            records.append(
                {
                    "loss": loss,
                    "gradient_norm": norm,
                    "tokens": float(batch["padding_mask"].sum()),
                    "accuracy": float(hits / weight),
                }
            )
            if not np.isfinite(loss + norm):
                break
            if self.clip_norm:
                gradient *= min(1.0, self.clip_norm / norm)
            self.model.slope.assign(slope - rate * gradient)
            self.optimizer.assign(self.optimizer + 1)
        return records


class NumPyEvaluator(Evaluator):
    def __init__(self, model, *, jit=False, rows=None):
        self.model, self.rows = model, rows

    def run(self, batches, stop=lambda: False):
        totals, rows = np.zeros(3), []
        for number in range(batches.num_batches):
            if number and stop():
                return None
            batch = batches.batch(number, 0, batches.batch_size)
            batch["weight"] = batch["weight"] * batch["sample_weight"]
            errors, weight, hits = sums_of(weights_of(self.model), batch)
            totals += batch["weight"] @ errors**2, hits, weight
            rows.append(errors + batch["label"])
        loss, accuracy = (totals[:2] / totals[2]).tolist()
        results = {"square_loss": loss, "accuracy": accuracy, "loss": loss}
        return results, np.concatenate(rows) if self.rows else None


def weights_of(model):
    return keras.ops.convert_to_numpy(model.slope).astype(np.float64)


def sums_of(slope, batch):
    """(errors of the rows, sum of their weights, weight of the errors below 1)."""
    errors = batch["x"] @ slope - batch["label"]
    return errors, batch["weight"].sum(), batch["weight"] @ (np.abs(errors) < 1)
