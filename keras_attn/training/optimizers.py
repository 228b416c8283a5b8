"""AdamW and LAMB with the exclusions of BERT from weight decay."""

import keras
from keras import ops

from keras_attn.errors import UserError
from keras_attn.ops import kernels

NAMES = ("adamw", "lamb")
_KERNELS = kernels.of_backend("tensorflow")


class _Adam(keras.optimizers.Optimizer):
    """Base of AdamW and LAMB: the two moments of Adam, and the update of a variable.

    On JAX, use `stateless_apply`, and multiply the gradients by the factor beforehand.
    """

    def __init__(
        self, learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-6, decay=0.01, **kwargs
    ):
        if kwargs.get("weight_decay") is not None:
            raise ValueError(
                "weight_decay is not supported. Use decay. "
                f"Received: weight_decay={kwargs['weight_decay']}"
            )
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.decay = decay
        self._undecayed = set()
        self._rate_factors = {}
        self._factor = 1.0
        self._assign_updated = (
            _KERNELS.variables.in_place(self._updated) if _KERNELS else self._assign_plainly
        )

    def exclude(self, variables):
        """Excludes variables from weight decay."""
        self._undecayed = {variable.path for variable in variables}

    def scale_rates(self, factors):
        """Multiplies the learning rate of variables; `factors` is a dict by variable path."""
        self._rate_factors = dict(factors)

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._factors = [self._rate_factors.get(variable.path, 1.0) for variable in variables]
        self._momentums = self.add_optimizer_variables(variables, "momentum")
        self._velocities = self.add_optimizer_variables(variables, "velocity")
        self._decayed = [variable.path not in self._undecayed for variable in variables]

    def apply(self, grads, trainable_variables=None, factor=1.0):
        """Updates the variables with gradients, each multiplied by `factor` when it is read."""
        self._factor = factor
        try:
            super().apply(grads, trainable_variables)
        finally:
            self._factor = 1.0

    def _all_reduce_sum_gradients(self, grads_and_vars):  # called by Keras on TensorFlow only
        # A single replica has no reduction: see `tensorflow_replicas.summed`.
        if _KERNELS.replicas.count() == 1:
            return grads_and_vars
        return super()._all_reduce_sum_gradients(grads_and_vars)

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        slots = [self._momentums[index], self._velocities[index]]
        numbers = self._factor, learning_rate * self._factors[index], self.iterations + 1
        self._assign_updated(
            variable,
            slots,
            gradient,
            *(ops.cast(number, slots[0].dtype) for number in numbers),
            self._decayed[index],
        )

    def _assign_plainly(self, variable, slots, gradient, *others):
        variables = [variable, *slots]
        values = self._updated(
            *map(ops.convert_to_tensor, variables), ops.cast(gradient, variable.dtype), *others
        )
        for one, value in zip(variables, values, strict=True):
            self.assign(one, value)

    def _updated(self, w, m, v, gradient, factor, rate, count, decayed):
        """Returns the new values of a weight and its moments."""
        gradient = gradient * factor  # not in place, which would change the argument on PyTorch
        m = m + (gradient - m) * (1 - self.beta_1)
        v = v + (gradient * gradient - v) * (1 - self.beta_2)
        corrections = 1 - self.beta_1**count, 1 - self.beta_2**count
        return w - rate * self._direction(w, m, v, *corrections, decayed), m, v

    def get_config(self):
        return {
            **super().get_config(),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "decay": self.decay,
        }


@keras.saving.register_keras_serializable(package="keras_attn")
class AdamW(_Adam):
    """Adam with decoupled weight decay, like `torch.optim.AdamW`.

        w <- w - learning_rate * (m / c1 / (sqrt(v / c2) + epsilon) + decay * w)

    where c1 = 1 - beta_1^t and c2 = 1 - beta_2^t at step t. `keras.optimizers.AdamW` adds epsilon
    to sqrt(v) before the correction, which multiplies it by 1 / sqrt(c2), up to 32 in the first
    steps, and slows down weights with small gradients.

    Args:
        learning_rate: Learning rate, or a Keras schedule.
        beta_1, beta_2, epsilon: Hyperparameters of Adam.
        decay: Weight decay of the variables that are not excluded by `exclude`.

    References:
        Kingma & Ba, Adam, 2015, algorithm 1.
        Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019,
        algorithm 2 with the decay scaled by the rate.
    """

    def _direction(self, w, m, v, c1, c2, decayed):
        direction = _adam(m, v, c1, c2, self.epsilon)
        return direction + self.decay * w if decayed else direction


@keras.saving.register_keras_serializable(package="keras_attn")
class LAMB(_Adam):
    """Adam with layer-wise scaling of the update to the norm of the weights.

    With the bias-corrected step r = m / (sqrt(v) + epsilon) + decay * w,

        w <- w - learning_rate * |w| / |r| * r

    where the trust ratio |w| / |r| is 1 if either norm is 0. As in the authors' code, variables
    excluded by `exclude` have neither decay nor trust ratio. (`keras.optimizers.Lamb` applies
    decay outside the trust ratio.)

    Args:
        learning_rate: Learning rate, or a Keras schedule.
        beta_1, beta_2, epsilon: Hyperparameters of Adam.
        decay: Weight decay inside the trust ratio.

    Reference:
        You et al., Large Batch Optimization for Deep Learning, 2019,
        algorithm 2.
    """

    def _direction(self, w, m, v, c1, c2, decayed):
        direction = _adam(m, v, c1, c2, self.epsilon)
        if not decayed:
            return direction
        direction += self.decay * w
        ratio = ops.divide_no_nan(ops.norm(w), ops.norm(direction))
        return ops.where(ratio > 0, ratio, 1.0) * direction


def _adam(m, v, c1, c2, epsilon):
    return m / c1 / (ops.sqrt(v / c2) + epsilon)


def make_optimizer(
    name,
    model,
    *,
    weight_decay=0.01,
    beta_1=0.9,
    beta_2=0.999,
    epsilon=1e-6,
    layer_decay=1.0,
    rate_factors=None,
):
    """Makes and builds an optimizer, whose learning rate the engine sets in every step.

    Biases and the scales of normalization layers have no weight decay (Devlin et al., 2018).

    Args:
        name: "adamw" or "lamb".
        model: A built task model.
        weight_decay, beta_1, beta_2, epsilon: See `AdamW` and `LAMB`.
        layer_decay: Factor of the learning rate from each layer of the backbone to the one below;
            heads have the full rate (Howard & Ruder, 2018, section 3.2).
        rate_factors: Factors of the learning rate of layers of the task model, by name. These
            layers have no weight decay.

    Raises:
        UserError: For an unknown name.
    """
    if name not in NAMES:
        raise UserError(f"train.optimizer must be one of {', '.join(NAMES)}. Received: {name}")
    kind = {"adamw": AdamW, "lamb": LAMB}[name]
    # Explicit names: Keras would number the optimizers of a process.
    optimizer = kind(1e-3, beta_1, beta_2, epsilon, weight_decay, name=kind.__name__.lower())
    factors = {
        variable.path: factor
        for layer, factor in (rate_factors or {}).items()
        for variable in getattr(model, layer).trainable_variables
    }
    optimizer.exclude(v for v in model.trainable_variables if len(v.shape) < 2 or v.path in factors)
    if layer_decay != 1.0:
        layers = reversed(model.backbone.variables_by_depth())
        factors |= {
            variable.path: layer_decay**distance
            for distance, variables in enumerate(layers)
            for variable in variables
        }
    optimizer.scale_rates(factors)
    optimizer.build(model.trainable_variables)
    return optimizer
