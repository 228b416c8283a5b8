"""A training step that takes no time, and trainers that use it."""

import json
import math
import time

import keras
import numpy as np

from keras_attn.training.engines.contract import Step
from keras_attn.training.trainer import Trainer
from keras_attn.training.variables import variables_by_path
from tests.support.numpy_engine.engine import NumPyEngine


class Clock:
    """Clock that advances only in `sleep`."""

    now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeStep(Step):
    """Takes no time to build; each step adds its number times its rate to the weights."""

    def __init__(self, seconds=0.0, bad_step=None, at_step=None, clock=time):
        self.engine = NumPyEngine()
        self.model = keras.Sequential([keras.layers.Dense(1, name="dense")], name="net")
        self.model.build((None, 2))
        self.model.layers[0].kernel.assign(np.zeros((2, 1)))
        self.optimizer = None
        self.seconds, self.bad_step, self.at_step = seconds, bad_step, at_step or {}
        self.clock = clock
        self.rates = {}

    def feed(self, batches, first_step):
        return batches

    def variables(self):
        return variables_by_path(self.model)

    def run(self, feed, first, rates):
        rows = []
        for step, rate in enumerate(rates, first + 1):
            self.clock.sleep(self.seconds)
            self.at_step.get(step, lambda: None)()
            bad = step == self.bad_step
            rows.append(
                {"loss": math.nan if bad else 1.0 / step, "gradient_norm": 1.0, "tokens": 10}
            )
            if bad:
                break
            kernel = self.model.layers[0].kernel
            kernel.assign(kernel + step)
            self.rates[step] = float(rate)
        return rows


class FakeBatches:
    batch_size = mean_rows = 4
    one_length = one_count = True

    def batch(self, index, first, last):
        return {"x": np.zeros((last - first, 1), np.float32)}


def trainer_of(folder, step=None, **options):
    return Trainer(step or FakeStep(), FakeBatches(), str(folder), **options)


def records_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").open()]


def checkpoints_of(folder):
    return json.loads((folder / "checkpoints" / "index.json").read_text())["steps"]


def kernel_of(trainer):
    return float(trainer.step_function.model.layers[0].kernel[0, 0])
