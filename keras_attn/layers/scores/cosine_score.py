"""Cosine score."""

import math
from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops.arguments import require_not_negative, require_positive
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class CosineScore(CheckedLayer):
    """Cosine similarity of query and key, multiplied by a scale.

    `score(q, k) = beta * q.k / (|q| |k|)`, in float32.

    Args:
        beta: Scale of the scores. A cosine lies in [-1, 1], so with `beta=1` no attention weight
            can exceed e^2 times another.
        learn_beta: Whether beta is trainable, with this initial value; its logarithm is learned, so
            it stays positive.
        epsilon: Lower bound of the squared norms; a zero vector scores 0.

    Call arguments:
        query: `(B, T, D)`.
        key: `(B, S, D)`.

    Returns:
        Scores `(B, T, S)` in float32.

    Raises:
        ValueError: If the depths of query and key differ, or `beta` is not positive.

    Reference:
        Graves et al., Neural Turing Machines, 2014, eq. 5-6.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import CosineScore
        >>> query, key = np.array([[[3.0, 4.0]]]), np.array([[[6.0, 8.0], [-4.0, 3.0]]])
        >>> print(ops.convert_to_numpy(CosineScore()(query, key)).round(3))
        [[[1. 0.]]]
    """

    AXES = {"query": "BTD", "key": "BSD"}

    def __init__(
        self, beta: float = 1.0, learn_beta: bool = False, epsilon: float = 1e-8, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive(beta=beta)
        require_not_negative(epsilon=epsilon)
        self.beta = beta
        self.learn_beta = learn_beta
        self.epsilon = epsilon
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.require_axes(query=query_shape, key=key_shape)
        self.log_beta = None
        if self.learn_beta:
            self.log_beta = self.add_weight(
                name="log_beta",
                shape=(),
                autocast=False,
                initializer=keras.initializers.Constant(math.log(self.beta)),
            )
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        # (B, T, D) x (B, S, D) -> (B, T, S)
        cosines = ops.matmul(self._unit(query), ops.swapaxes(self._unit(key), -1, -2))
        beta = self.beta
        if self.log_beta is not None:
            beta = ops.exp(ops.cast(self.log_beta, "float32"))
        return beta * cosines

    def _unit(self, x):
        # Squares overflow float16 from 256 on; the square root has no finite gradient at 0.
        x = ops.cast(x, "float32")
        squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
        return x * ops.rsqrt(ops.maximum(squared, self.epsilon))

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "beta": self.beta,
            "learn_beta": self.learn_beta,
            "epsilon": self.epsilon,
        }
