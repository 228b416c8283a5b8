"""Learned position embedding."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.seeds import seeded_initializer
from keras_attn.layers.shapes import require_position_ids
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LearnedPositionEmbedding(CheckedLayer):
    """Adds a learned position embedding to each vector.

    `y[t] = x[t] + P[t]`

    Args:
        max_length: Number of position embeddings, the maximum input length.
        initializer: Initializer of the position embeddings.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: `(B, T, D)`.
        position_ids: Integers `(B, T)` or `(T,)` below `max_length`, for packed or left-padded
            rows; defaults to 0 to T - 1.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If `max_length` is not positive, or T exceeds it.

    Reference:
        Devlin et al., BERT, 2018, section 3.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import LearnedPositionEmbedding
        >>> layer = LearnedPositionEmbedding(8, initializer="ones")
        >>> print(ops.convert_to_numpy(layer(np.array([[[0.0, 1.0], [2.0, 3.0]]]))))
        [[[1. 2.]
          [3. 4.]]]
    """

    AXES = {"inputs": "BTD"}

    def __init__(
        self,
        max_length: int,
        initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(max_length=max_length)
        self.max_length = max_length
        self.initializer = keras.initializers.get(initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, input_shape[-1]),
            initializer=seeded_initializer(self.initializer, self.seed),
        )
        self.built = True

    def call(self, inputs: Tensor, position_ids: Tensor | None = None) -> Tensor:
        require_position_ids(self, inputs, position_ids)
        if position_ids is not None:
            return inputs + ops.take(self.embeddings, position_ids, axis=0)
        if inputs.shape[1] is not None and inputs.shape[1] > self.max_length:
            raise ValueError(
                "LearnedPositionEmbedding: the inputs exceed "
                f"max_length={self.max_length}. Truncate them, or create the layer with a larger "
                f"max_length. Received: inputs.shape={tuple(inputs.shape)}"
            )
        # A slice, not a gather: its gradient is dense and cheap. Inputs whose
        # excessive length is only known at run time fail in the addition.
        return inputs + self.embeddings[: ops.shape(inputs)[1]]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "initializer": keras.initializers.serialize(self.initializer),
            "seed": self.seed,
        }
