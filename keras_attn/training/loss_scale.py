"""Dynamic loss scaling, which keeps float16 gradients within the narrow range of float16."""

import keras
from keras import ops

INITIAL_SCALE, MAX_SCALE = 2.0**15, 2.0**24
GROWTH_INTERVAL = 2000


class LossScale:
    """Factor of the loss that doubles after 2,000 finite steps and halves after an overflow.

    Gradients below 6e-8 are 0 in float16. A step whose gradients, summed over all replicas,
    overflow is skipped. The object is created in the scope of the engine.

    Reference:
        Micikevicius et al., Mixed Precision Training, 2018, section 3.2.
    """

    def __init__(self):
        self.value = self._variable(INITIAL_SCALE, "loss_scale", "float32")
        self.good_steps = self._variable(0, "loss_scale_good_steps", "int")
        self.variables = [self.value, self.good_steps]

    @staticmethod
    def _variable(value, name, dtype):
        return keras.Variable(value, trainable=False, dtype=dtype, name=name)

    def read(self):
        """Returns the factor, a float32 scalar."""
        return ops.copy(self.value)  # convert_to_tensor would return the variable itself

    def update(self, finite):
        """Updates the factor after a step; `finite`: whether all gradients of it are finite."""
        good = ops.copy(self.good_steps)
        good = ops.where(finite, good + 1, ops.zeros_like(good))
        rises = good >= GROWTH_INTERVAL
        factor = ops.where(finite, ops.where(rises, 2.0, 1.0), 0.5)
        self.value.assign(ops.clip(self.read() * factor, 1.0, MAX_SCALE))
        self.good_steps.assign(ops.where(rises, ops.zeros_like(good), good))
