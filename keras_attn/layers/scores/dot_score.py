"""Dot-product score."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops.arguments import require_numbers
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class DotScore(CheckedLayer):
    """Dot product of query and key, optionally scaled.

    `score(q, k) = scale q^T k`, in float32, as float16 ends at 65,504.

    Args:
        scale: Factor; defaults to `1 / sqrt(D)`.

    Call arguments:
        query: `(B, T, D)`.
        key: `(B, S, D)`.

    Returns:
        Scores `(B, T, S)` in float32.

    Raises:
        ValueError: If the depths of query and key differ.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.1; scaled: Vaswani et al., Attention Is All
        You Need, 2017, section 3.2.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import DotScore
        >>> query, key = np.array([[[1.0, 2.0]]]), np.array([[[3.0, 1.0], [0.0, -1.0]]])
        >>> print(ops.convert_to_numpy(DotScore(scale=1.0)(query, key)))
        [[[ 5. -2.]]]
    """

    AXES = {"query": "BTD", "key": "BSD"}

    def __init__(self, scale: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_numbers(optional=True, scale=scale)
        self.scale = scale
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.require_axes(query=query_shape, key=key_shape)
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        scale = query.shape[-1] ** -0.5 if self.scale is None else self.scale
        query = scale * ops.cast(query, "float32")
        # (B, T, D) x (B, S, D) -> (B, T, S)
        return ops.matmul(query, ops.swapaxes(ops.cast(key, "float32"), -1, -2))

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}
