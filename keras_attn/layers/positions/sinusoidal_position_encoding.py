"""Sinusoidal position encoding."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.shapes import require_position_ids
from keras_attn.ops import sinusoidal_positions
from keras_attn.ops.arguments import require_positive
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class SinusoidalPositionEncoding(CheckedLayer):
    """Adds a fixed sinusoidal position encoding to each vector.

    `PE[p, 2i] = sin(p / w^(2i/D))`, `PE[p, 2i+1] = cos(p / w^(2i/D))`, in float32 whatever the
    dtype policy. The paper multiplies the embeddings by `sqrt(D)` before.

    Args:
        max_wavelength: w; the longest wavelength is nearly `2 pi w`.
        layout: `"interleaved"`: alternating sines and cosines, as in the paper; `"concat"`: all
            sines, then all cosines, as in Marian.

    Call arguments:
        inputs: `(B, T, D)`.
        position_ids: Integers `(B, T)` or `(T,)`; defaults to 0 to T - 1.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If `layout` is unknown or `max_wavelength` is not positive.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.5.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import SinusoidalPositionEncoding
        >>> print(ops.convert_to_numpy(SinusoidalPositionEncoding()(np.zeros((1, 2, 4)))).round(3))
        [[[0.    1.    0.    1.   ]
          [0.841 0.54  0.01  1.   ]]]
    """

    AXES = {"inputs": "BTD"}

    def __init__(
        self, max_wavelength: float = 10000.0, layout: str = "interleaved", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_positive(max_wavelength=max_wavelength)
        if layout not in ("interleaved", "concat"):
            raise ValueError(
                "SinusoidalPositionEncoding: layout must be 'interleaved' or 'concat'. "
                f"Received: layout={layout!r}"
            )
        self.max_wavelength = max_wavelength
        self.layout = layout
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.built = True

    def call(self, inputs: Tensor, position_ids: Tensor | None = None) -> Tensor:
        require_position_ids(self, inputs, position_ids)
        if position_ids is None:
            position_ids = ops.arange(ops.shape(inputs)[1], dtype="int32")
        table = sinusoidal_positions(
            position_ids, inputs.shape[-1], self.max_wavelength, self.layout
        )
        return inputs + ops.cast(table, inputs.dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_wavelength": self.max_wavelength,
            "layout": self.layout,
        }
