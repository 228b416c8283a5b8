"""Generation of a sequence from a vector (one-to-many)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.padded_rnn import run_rnn
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import LayerLike, Nest, Shape, Tensor

FEEDS = "first", "every"


@keras.saving.register_keras_serializable(package="keras_attn")
class VectorToSequence(CheckedLayer):
    """Runs a recurrent cell for a fixed number of steps on one vector (one-to-many).

    - `"first"`: the vector is the input of the first step; later inputs are 0;
    - `"every"`: the vector is the input of each step, as with `RepeatVector`.

    Args:
        cell: Keras cell, such as `LSTMCell`.
        length: Number of steps T.
        feed: `"first"` or `"every"`.

    Call arguments:
        inputs: `(B, D)`.
        initial_state: States of the cell; defaults to the cell's own initial states.

    Returns:
        `(B, T, units)`.

    Raises:
        ValueError: If `length` is not positive or `feed` is unknown.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import VectorToSequence
        >>> cell = keras.layers.SimpleRNNCell(1, "linear", kernel_initializer="ones",
        ...                                   recurrent_initializer="ones")
        >>> layer = VectorToSequence(cell, length=3, feed="every")
        >>> print(keras.ops.convert_to_numpy(layer(np.array([[2.0]])))[0, :, 0])
        [2. 4. 6.]
    """

    AXES = {"inputs": "BD"}

    def __init__(self, cell: LayerLike, length: int, feed: str = "first", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_sizes(length=length)
        if feed not in FEEDS:
            raise ValueError(
                f"VectorToSequence: feed must be one of {', '.join(FEEDS)}. Received: feed={feed!r}"
            )
        self.length = length
        self.feed = feed
        self.recurrent = keras.layers.RNN(
            as_layer(cell),
            return_sequences=True,
            return_state=True,
            name="recurrent",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape: Shape) -> None:
        self.recurrent.build((input_shape[0], self.length, input_shape[-1]))
        self.built = True

    def call(
        self, inputs: Tensor, initial_state: Nest = None, training: bool | None = None
    ) -> Tensor:
        x = inputs[:, None]
        if self.feed == "every":
            x = ops.repeat(x, self.length, axis=1)
        else:
            x = ops.pad(x, ((0, 0), (0, self.length - 1), (0, 0)))
        return run_rnn(self.recurrent, x, initial_state=initial_state, training=training)[0]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return self.recurrent.compute_output_shape((input_shape[0], self.length, input_shape[-1]))[
            0
        ]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": layer_config(self.recurrent.cell, self),
            "length": self.length,
            "feed": self.feed,
        }
