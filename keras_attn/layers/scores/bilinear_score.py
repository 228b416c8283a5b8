"""Bilinear score."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import seeded_initializer
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.ops.products import linear
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class BilinearScore(CheckedLayer):
    """Bilinear score, a dot product with a learned matrix between query and key ("general").

    `score(q, k) = q^T W k`. The second product is in float32, as float16 ends at 65,504.

    Args:
        kernel_initializer: Initializer of W, `(query depth, key depth)`.
        seed: Integer seed of the initial weights.

    Call arguments:
        query: `(B, T, Q)`.
        key: `(B, S, K)`.

    Returns:
        Scores `(B, T, S)` in float32.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import BilinearScore
        >>> score = BilinearScore(kernel_initializer="ones")
        >>> query, key = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 1.0, 1.0], [0.0, 0.0, 2.0]]])
        >>> print(ops.convert_to_numpy(score(query, key)))
        [[[9. 6.]]]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(query_shape[-1], key_shape[-1]),
            initializer=seeded_initializer(self.kernel_initializer, self.seed),
        )
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        # (B, T, Q) x (Q, K) x (B, S, K) -> (B, T, S)
        projected = ops.cast(linear(query, self.kernel), "float32")
        return ops.matmul(projected, ops.swapaxes(ops.cast(key, "float32"), -1, -2))

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
