"""Sinusoidal position encodings."""

import numpy as np
from keras import ops

from keras_attn.ops.arguments import require_positive, require_sizes
from keras_attn.types import Tensor


def sinusoidal_positions(
    positions: Tensor, depth: int, max_wavelength: float = 10000.0, layout: str = "interleaved"
) -> Tensor:
    """Sines and cosines of positions, with wavelengths from 2 pi up.

    `PE[p, 2i] = sin(p / w^(2i/D))` and `PE[p, 2i+1] = cos(p / w^(2i/D))`. For any shift k,
    `PE[p + k]` is a rotation of `PE[p]` that depends on k only.

    Args:
        positions: Integers `(...)`.
        depth: Depth D of the vectors. If odd, the last cosine is omitted.
        max_wavelength: w; the longest wavelength is nearly `2 pi w`.
        layout: `"interleaved"`: alternating sines and cosines, as in the paper. `"concat"`: all
            sines, then all cosines, with the same wavelengths.

    Returns:
        float32 `(..., D)`. Half precision cannot represent the positions.

    Raises:
        ValueError: If `layout` is unknown, or `depth` or `max_wavelength` is not positive.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.5.
    """
    if layout not in ("interleaved", "concat"):
        raise ValueError(f"layout must be 'interleaved' or 'concat'. Received: layout={layout!r}")
    require_sizes(depth=depth)
    require_positive(max_wavelength=max_wavelength)
    pairs = (depth + 1) // 2
    positions = ops.convert_to_tensor(positions)
    angles = rotation_angles(positions, depth, max_wavelength)
    sines, cosines = ops.sin(angles), ops.cos(angles)
    if layout == "concat":
        return ops.concatenate([sines, cosines[..., : depth // 2]], axis=-1)
    # (..., D / 2, 2) -> (..., D)
    table = ops.reshape(ops.stack([sines, cosines], axis=-1), (*ops.shape(positions), 2 * pairs))
    return table[..., :depth]


def rotation_angles(positions, depth, max_wavelength=10000.0):
    """`position / w^(2i/D)` for each pair i of entries of a vector.

    Args:
        positions: Integers `(...)`.
        depth: Depth D of the vectors.
        max_wavelength: w.

    Returns:
        float32 `(..., ceil(D / 2))`. Half precision cannot represent the positions.
    """
    positions = ops.cast(ops.convert_to_tensor(positions), "float32")
    frequencies = max_wavelength ** (np.arange((depth + 1) // 2) * (-2.0 / depth))
    return ops.expand_dims(positions, -1) * ops.convert_to_tensor(frequencies.astype("float32"))
