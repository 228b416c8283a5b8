"""Concat score."""

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
class ConcatScore(CheckedLayer):
    """Concat score: a feed-forward network with one hidden layer on the concatenated query and key.

    `score(q, k) = v^T tanh(W [q; k])`

    With `W = [W U]` it equals `AdditiveScore`. Without the tanh, as in some texts, the contribution
    of the query would be the same for all keys and cancel in the softmax.

    Args:
        units: Hidden units; the depth of the key if None.
        kernel_initializer: Initializer of W, `(query depth + key depth, units)`, and of v.
        seed: Integer seed of the initial weights.

    Call arguments:
        query: `(B, T, Q)`.
        key: `(B, S, K)`.

    Returns:
        Scores `(B, T, S)`, in the dtype of the query.

    Raises:
        ValueError: If `units` is not positive.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import ConcatScore
        >>> score = ConcatScore(2, kernel_initializer="ones")
        >>> query, key = np.array([[[0.5]]]), np.array([[[0.5], [-0.5]]])
        >>> print(ops.convert_to_numpy(score(query, key)).round(3))
        [[[1.523 0.   ]]]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(optional=True, units=units)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        units = self.units or key_shape[-1]
        kernel_seed, vector_seed = split_seed(self.seed, 2)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(query_shape[-1] + key_shape[-1], units),
            initializer=seeded_initializer(self.kernel_initializer, kernel_seed),
        )
        self.vector = self.add_weight(
            name="vector",
            shape=(units, 1),
            initializer=seeded_initializer(self.kernel_initializer, vector_seed),
        )
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        # W [q; k] = W_q q + W_k k, without copying each query for each key.
        kernel = ops.cast(self.kernel, query.dtype)
        depth = query.shape[-1]
        query = linear(query, kernel[:depth])[:, :, None, :]
        hidden = ops.tanh(query + linear(key, kernel[depth:])[:, None, :, :])
        return linear(hidden, self.vector)[..., 0]

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
