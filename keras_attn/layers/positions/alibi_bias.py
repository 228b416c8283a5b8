"""ALiBi: attention with linear biases."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.positions.distances import distances
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AlibiBias(CheckedLayer):
    """Fixed attention bias per head that decreases linearly with the distance of query and key.

    `-m_h |i - j|`, where `m_h = 2^(-8 h / H)` for heads 1 to H if H is a power of two; otherwise
    the slopes of the next smaller power, then every other slope of twice that power. In float32.

    Args:
        num_heads: Number of heads H.

    Call arguments:
        query: `(..., T, D)`; only its length is used.
        key: `(..., S, D)`; defaults to `query`.
        offset: Integer scalar, the position of the first query among the keys.

    Returns:
        float32 `(H, T, S)`, the `bias` of `scaled_dot_product_attention`.

    Raises:
        ValueError: If `num_heads` is not positive.

    Reference:
        Press et al., Train Short, Test Long, 2022, section 3.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import AlibiBias
        >>> print(ops.convert_to_numpy(AlibiBias(2)(np.zeros((1, 2, 4)))))
        [[[-0.         -0.0625    ]
          [-0.0625     -0.        ]]
        <BLANKLINE>
         [[-0.         -0.00390625]
          [-0.00390625 -0.        ]]]
    """

    AXES = {"query": "...", "key": "..."}  # only their lengths are used

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_sizes(num_heads=num_heads)
        self.num_heads = num_heads

    def build(self, query_shape: Shape, key_shape: Shape | None = None) -> None:
        self.built = True

    def call(self, query: Tensor, key: Tensor | None = None, offset: Tensor | int = 0) -> Tensor:
        distance = ops.cast(ops.abs(distances(query, key, offset)), "float32")
        return -ops.convert_to_tensor(alibi_slopes(self.num_heads))[:, None, None] * distance

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape | None = None) -> Shape:
        key_shape = query_shape if key_shape is None else key_shape
        return self.num_heads, query_shape[-2], key_shape[-2]

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}


def alibi_slopes(num_heads):
    """The slope m of each head, float32 `(H,)`."""
    power = 2 ** int(np.log2(num_heads))
    slopes = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
    between = 2.0 ** (-4.0 / power * np.arange(1, 2 * power + 1, 2))
    return np.concatenate([slopes, between])[:num_heads].astype("float32")
