"""Additive score."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.products import linear
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AdditiveScore(CheckedLayer):
    """Additive score: a feed-forward network with one hidden layer on query and key.

    `score(q, k) = v^T tanh(W q + U k)`; with a bias, `v^T tanh(W q + U k + b)`; normalized, with
    `g v / |v|` in place of v.

    Memory is `B T S units`.

    Args:
        units: Hidden units; the depth of the key if None.
        use_bias: Whether there is a bias b. The paper has none.
        normalize: Whether to normalize v and learn its length g, initially `1 / sqrt(units)`.
        kernel_initializer: Initializer of W, `(query depth, units)`, of U and of v.
        seed: Integer seed of the initial weights.

    Call arguments:
        query: `(B, T, Q)`.
        key: `(B, S, K)`.

    Returns:
        Scores `(B, T, S)`, in the dtype of the query.

    Raises:
        ValueError: If `units` is not positive.

    Reference:
        Bahdanau et al., Neural Machine Translation by Jointly Learning to Align
        and Translate, 2015, appendix A.1.2; normalised: Salimans and Kingma,
        Weight Normalization, 2016, eq. 2.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import AdditiveScore
        >>> score = AdditiveScore(2, kernel_initializer="ones")
        >>> query, key = np.array([[[0.5]]]), np.array([[[0.5], [-0.5]]])
        >>> print(ops.convert_to_numpy(score(query, key)).round(3))
        [[[1.523 0.   ]]]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        units: int | None = None,
        use_bias: bool = False,
        normalize: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(optional=True, units=units)
        self.units = units
        self.use_bias = use_bias
        self.normalize = normalize
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or key_shape[-1]
        shapes = {
            "query_kernel": (query_shape[-1], units),
            "key_kernel": (key_shape[-1], units),
            "vector": (units, 1),
        }
        self.query_kernel, self.key_kernel, self.vector = (
            self.add_weight(
                name=name,
                shape=shape,
                initializer=seeded_initializer(self.kernel_initializer, seed),
            )
            for (name, shape), seed in zip(shapes.items(), split_seed(self.seed, 3), strict=True)
        )
        self.bias = self.length = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(units,), initializer="zeros")
        if self.normalize:
            self.length = self.add_weight(
                name="length", shape=(), initializer=keras.initializers.Constant(units**-0.5)
            )
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        return self.from_projected(self.project_query(query), self.project_key(key))

    def project_query(self, query: Tensor) -> Tensor:
        """Projects queries: `W q (+ b)`, `(B, T, units)`."""
        return linear(query, self.query_kernel, self.bias)

    def project_key(self, key: Tensor) -> Tensor:
        """Projects keys: `U k`, `(B, S, units)`; once for keys used by several calls."""
        return linear(key, self.key_kernel)

    def from_projected(self, query: Tensor, key: Tensor) -> Tensor:
        """Computes the scores of projected queries and keys."""
        # (B, T, 1, U) + (B, 1, S, U) -> (B, T, S, U) -> (B, T, S)
        hidden = ops.tanh(query[:, :, None, :] + key[:, None, :, :])
        vector = self.vector
        if self.length is not None:
            vector = ops.cast(vector, "float32")
            vector = (
                ops.cast(self.length, "float32") * vector * ops.rsqrt(ops.sum(ops.square(vector)))
            )
        return linear(hidden, ops.cast(vector, hidden.dtype))[..., 0]

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "normalize": self.normalize,
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
