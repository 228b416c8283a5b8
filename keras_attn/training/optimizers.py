"""AdamW and LAMB with the exclusions that BERT makes."""

import keras
from keras import ops

from keras_attn.errors import UserError

NAMES = ("adamw", "lamb")


@keras.saving.register_keras_serializable(package="keras_attn")
class LAMB(keras.optimizers.Optimizer):
    """Adam whose step is scaled, tensor by tensor, to the size of its weights.

    With Adam's bias-corrected step r = m / (sqrt(v) + epsilon) + decay * w,

        w <- w - learning_rate * |w| / |r| * r

    where the trust ratio |w| / |r| is 1 if either norm is 0. Tensors excluded
    from weight decay take neither decay nor trust ratio, as in the authors'
    code. (`keras.optimizers.Lamb` applies decay outside the trust ratio.)

    Args:
        learning_rate: Rate, or a Keras schedule.
        beta_1, beta_2, epsilon: As for Adam.
        decay: Weight decay inside the trust ratio.

    Reference:
        You et al., Large Batch Optimization for Deep Learning, 2019,
        algorithm 2.
    """

    def __init__(self, learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-6, decay=0.01,
                 name="lamb", **kwargs):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.decay = decay
        self._undecayed = set()

    def exclude(self, variables):
        """Names the variables that take neither decay nor trust ratio."""
        self._undecayed = {variable.path for variable in variables}

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._momentums = self.add_optimizer_variables(variables, "momentum")
        self._velocities = self.add_optimizer_variables(variables, "velocity")
        self._plain = [variable.path in self._undecayed for variable in variables]

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        m, v = self._momentums[index], self._velocities[index]
        gradient = ops.cast(gradient, variable.dtype)
        rate = ops.cast(learning_rate, variable.dtype)
        count = ops.cast(self.iterations + 1, variable.dtype)
        self.assign_add(m, (gradient - m) * (1 - self.beta_1))
        self.assign_add(v, (ops.square(gradient) - v) * (1 - self.beta_2))
        corrected = m / (1 - ops.power(ops.cast(self.beta_1, variable.dtype), count))
        scale = v / (1 - ops.power(ops.cast(self.beta_2, variable.dtype), count))
        step = corrected / (ops.sqrt(scale) + self.epsilon)
        if not self._plain[index]:
            step = step + self.decay * variable
            weight_norm = ops.sqrt(ops.sum(ops.square(variable)))
            step_norm = ops.sqrt(ops.sum(ops.square(step)))
            defined = ops.logical_and(weight_norm > 0, step_norm > 0)
            rate = rate * ops.where(defined, weight_norm / ops.where(defined, step_norm, 1.0), 1.0)
        self.assign_sub(variable, rate * step)

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "decay": self.decay,
        }


def make_optimizer(name, model, *, weight_decay=0.01, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    """Makes and builds the optimizer; the trainer sets its rate every step.

    Biases and the scales of norms are not decayed (Devlin et al., 2018).

    Raises:
        UserError: For an unknown name.
    """
    undecayed = [v for v in model.trainable_variables if len(v.shape) < 2]
    if name == "adamw":
        optimizer = keras.optimizers.AdamW(
            1e-3, weight_decay=weight_decay, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon,
            name="adam_w",  # Keras would number the second one of a process
        )
        optimizer.exclude_from_weight_decay(var_list=undecayed)
    elif name == "lamb":
        optimizer = LAMB(1e-3, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, decay=weight_decay)
        optimizer.exclude(undecayed)
    else:
        raise UserError(f"train.optimizer must be one of {', '.join(NAMES)}. Received: {name}")
    optimizer.build(model.trainable_variables)
    return optimizer
