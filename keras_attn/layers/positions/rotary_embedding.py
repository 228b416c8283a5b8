"""Rotary position embedding."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.ops.arguments import require_positive
from keras_attn.ops.positions import rotation_angles
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RotaryEmbedding(CheckedLayer):
    """Rotates pairs of entries of queries or keys by angles proportional to their position.

    `(x_a, x_b) -> (x_a cos - x_b sin, x_b cos + x_a sin)` of `position * w^(-2i/D)` for pair i, in
    float32, so that the product of a query and a key depends on their distance only.

    Args:
        layout: Which entries form pair i. `"interleaved"`: 2i and 2i + 1, as in the paper and in
            GPT-J; `"halves"`: i and i + D/2, as in GPT-NeoX, LLaMA and KerasHub. Permuting the
            columns of the query and key kernels converts one layout to the other.
        max_wavelength: w.

    Call arguments:
        inputs: `(..., T, D)`, queries or keys of a head.
        position_ids: Integers `(T,)`, `(B, T)`, also for inputs `(B, H, T, D)`, or `(..., T)` that
            broadcast to the inputs; defaults to 0 to T - 1.

    Returns:
        `(..., T, D)`.

    Raises:
        ValueError: If D is odd, `layout` is unknown, or `max_wavelength` is not positive.

    Reference:
        Su et al., RoFormer, 2021, eq. 34.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import RotaryEmbedding
        >>> turned = RotaryEmbedding()(np.array([[[1.0, 0.0], [1.0, 0.0]]]))
        >>> print(ops.convert_to_numpy(turned).round(3))  # by 0 and by 1
        [[[1.    0.   ]
          [0.54  0.841]]]
    """

    def __init__(
        self, layout: str = "interleaved", max_wavelength: float = 10000.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("interleaved", "halves"):
            raise ValueError(
                "RotaryEmbedding: layout must be 'interleaved' or 'halves'. "
                f"Received: layout={layout!r}"
            )
        require_positive(max_wavelength=max_wavelength)
        self.layout = layout
        self.max_wavelength = max_wavelength
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        if input_shape[-1] % 2:
            raise ValueError(
                "RotaryEmbedding: the depth of the inputs must be even. "
                f"Received: input_shape={input_shape}"
            )
        self.built = True

    def call(self, inputs: Tensor, position_ids: Tensor | None = None) -> Tensor:
        if position_ids is None:
            position_ids = ops.arange(ops.shape(inputs)[-2], dtype="int32")
        elif len(position_ids.shape) == 2 and len(inputs.shape) == 4:
            position_ids = position_ids[:, None]  # for every head
        depth = inputs.shape[-1]
        angles = rotation_angles(position_ids, depth, self.max_wavelength)  # (..., T, D / 2)
        sines, cosines = ops.sin(angles), ops.cos(angles)
        x = ops.cast(inputs, "float32")
        if self.layout == "halves":
            first, second = x[..., : depth // 2], x[..., depth // 2 :]
        else:
            first, second = x[..., ::2], x[..., 1::2]
        turned = first * cosines - second * sines, second * cosines + first * sines
        if self.layout == "halves":
            turned = ops.concatenate(turned, axis=-1)
        else:
            turned = ops.reshape(ops.stack(turned, axis=-1), ops.shape(x))
        return ops.cast(turned, inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "layout": self.layout,
            "max_wavelength": self.max_wavelength,
        }


def rotate(position, heads, start=None, position_ids=None):
    """Applies the position layer to queries or keys `(B, H, T, K)` if it is a `RotaryEmbedding`.

    Args:
        position: A layer, or None.
        heads: Queries or keys.
        start: Integer scalar, the position of the first one; defaults to 0.
        position_ids: Integers `(T,)` or `(B, T)`, which replace the positions from `start` on.
    """
    if not isinstance(position, RotaryEmbedding):
        return heads
    if position_ids is None:
        position_ids = ops.arange(ops.shape(heads)[2], dtype="int32")
        if start is not None:
            position_ids = position_ids + ops.cast(start, "int32")
    return ops.cast(position(heads, position_ids), heads.dtype)
