"""AdamW, LAMB and Muon with the exclusions of BERT from weight decay."""

import functools
import itertools

import keras
from keras import ops

from keras_attn.errors import UserError
from keras_attn.ops import kernels
from keras_attn.training.orthogonal import orthogonal_updates

NAMES = ("adamw", "lamb", "muon")
_KERNELS = kernels.of_backend("tensorflow")


class _Adam(keras.optimizers.Optimizer):
    """Base of the optimizers: the two moments of Adam, and the update of a variable.

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
        self._assign_updated = self._assigning(self._updated)

    def _assigning(self, update):
        """Returns a function that assigns to a variable and its slots what `update` returns."""
        if _KERNELS:
            return _KERNELS.variables.in_place(update)
        return functools.partial(self._assign_plainly, update)

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
        self._velocities = self._make_velocities(variables)
        self._decayed = [variable.path not in self._undecayed for variable in variables]

    def _make_velocities(self, variables):
        return self.add_optimizer_variables(variables, "velocity")

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

    def _assign_plainly(self, update, variable, slots, gradient, *others):
        variables = [variable, *slots]
        values = update(
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


@keras.saving.register_keras_serializable(package="keras_attn")
class Muon(_Adam):
    """Momentum with orthogonal updates for the kernels of hidden layers, AdamW for the others.

        m <- momentum * m + g
        W <- W - learning_rate * (0.2 sqrt(max(n, m)) * O + decay * W)

    for a kernel of shape (n, m), where O is the orthogonal matrix next to g + momentum * m, up to
    singular values between about 0.7 and 1.2: five steps of a Newton-Schulz iteration. Projections
    that share a kernel are separate matrices. The factor gives an update the root mean square of
    those of AdamW, so that both have the same learning rate and weight decay.

    Args:
        learning_rate: Learning rate, or a Keras schedule.
        beta_1, beta_2, epsilon: Hyperparameters of AdamW.
        decay: Weight decay of the variables that are not excluded by `exclude`.
        momentum: Decay rate of the momentum of the kernels of hidden layers.
        product_dtype: Dtype of the products of the iteration, which may be `"bfloat16"`.

    References:
        Jordan et al., Muon: An Optimizer for Hidden Layers in Neural Networks, 2024.
        Liu et al., Muon is Scalable for LLM Training, 2025, section 2.2 (decay and factor).
    """

    def __init__(
        self,
        learning_rate=1e-3,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        decay=0.01,
        momentum=0.95,
        product_dtype="float32",
        **kwargs,
    ):
        super().__init__(learning_rate, beta_1, beta_2, epsilon, decay, **kwargs)
        self.momentum = momentum
        self.product_dtype = product_dtype
        self._widths = {}
        self._assign_moved = self._assigning(self._moved)

    _direction = AdamW._direction

    def orthogonalize(self, widths):
        """Sets the kernels of hidden layers before the optimizer is built.

        Args:
            widths: Dict from the path of a kernel to the numbers of columns of its projections.
        """
        self._widths = {path: tuple(columns) for path, columns in widths.items()}

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self._columns = [self._widths.get(variable.path) for variable in variables]

    def _make_velocities(self, variables):
        # One after the other, as a kernel of a hidden layer has none.
        return [
            None
            if variable.path in self._widths
            else self.add_optimizer_variables([variable], "velocity")[0]
            for variable in variables
        ]

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        if not _KERNELS:
            grads = self._with_directions(grads, trainable_variables)
        super()._backend_update_step(grads, trainable_variables, learning_rate)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        # On TensorFlow the directions follow from the gradients summed over the replicas.
        gradients, variables = zip(*super()._all_reduce_sum_gradients(grads_and_vars), strict=True)
        gradients = self._with_directions(gradients, variables)
        return list(zip(gradients, variables, strict=True))

    def _with_directions(self, gradients, variables):
        """Replaces the gradient of each kernel of a hidden layer by its momentum and direction."""
        gradients, found, parts = list(gradients), {}, []
        for number, variable in enumerate(variables):
            index = self._get_variable_index(variable)
            if self._columns[index] is None:
                continue
            momentum = ops.convert_to_tensor(self._momentums[index])
            gradient, factor = (
                ops.cast(x, momentum.dtype) for x in (gradients[number], self._factor)
            )
            gradient = gradient * factor
            momentum = self.momentum * momentum + gradient
            found[number] = momentum, len(self._columns[index])
            ahead = gradient + self.momentum * momentum
            ends = itertools.accumulate(self._columns[index], initial=0)
            parts += [ahead[:, start:end] for start, end in itertools.pairwise(ends)]
        directions = iter(orthogonal_updates(parts, self.product_dtype))
        for number, (momentum, count) in found.items():
            own = list(itertools.islice(directions, count))
            gradients[number] = momentum, ops.concatenate(own, axis=1)
        return gradients

    def update_step(self, gradient, variable, learning_rate):
        index = self._get_variable_index(variable)
        if self._columns[index] is None:
            super().update_step(gradient, variable, learning_rate)
            return
        (momentum, direction), slot = gradient, self._momentums[index]
        rate = ops.cast(learning_rate * self._factors[index], slot.dtype)
        decayed = self._decayed[index]
        self._assign_moved(variable, [slot], momentum, direction, rate, decayed)

    def _moved(self, w, _, momentum, direction, rate, decayed):
        """Returns the new values of a kernel and its momentum."""
        if decayed:
            direction = direction + self.decay * w
        return w - rate * direction, momentum

    def get_config(self):
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "product_dtype": self.product_dtype,
        }


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
        name: "adamw", "lamb" or "muon".
        model: A built task model.
        weight_decay, beta_1, beta_2, epsilon: See `AdamW`, `LAMB` and `Muon`.
        layer_decay: Factor of the learning rate from each layer of the backbone to the one below;
            heads have the full rate (Howard & Ruder, 2018, section 3.2).
        rate_factors: Factors of the learning rate of layers of the task model, by name. These
            layers have no weight decay.

    Raises:
        UserError: For an unknown name, and for Muon without trainable attention and feed-forward
            layers.
    """
    if name not in NAMES:
        raise UserError(f"train.optimizer must be one of {', '.join(NAMES)}. Received: {name}")
    kind = {"adamw": AdamW, "lamb": LAMB, "muon": Muon}[name]
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
    if name == "muon":
        optimizer.orthogonalize(_projections(model))
        if model.dtype_policy.compute_dtype == "bfloat16":
            optimizer.product_dtype = "bfloat16"
    optimizer.build(model.trainable_variables)
    return optimizer


def _projections(model):
    """Returns the numbers of columns of the projections in each kernel of the hidden layers."""
    found = {
        variable.path: variable.projection_dims
        for variable in model.trainable_variables
        if hasattr(variable, "projection_dims")
    }
    if not found:
        raise UserError(
            "train.optimizer=muon requires trainable multi-head attention or feed-forward layers, "
            f"which {type(model).__name__} lacks. Use train.optimizer=adamw"
        )
    return found
