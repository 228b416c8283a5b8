"""Attention pooling over a convolution, with the query from a BiLSTM."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.padded_rnn import bidirectional, run_rnn
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.time_loop import pad_empty_axis
from keras_attn.types import Activation, Initializer, Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentiveConvPooling(CheckedLayer):
    """Attention pooling of convolution outputs, where the query is the final state of a BiLSTM.

    `c = activation(conv(x))`, `s` the last states of a BiLSTM over x,
    `a = softmax_t(s^T tanh(W c_t + b))`, `output = [sum_t a_t c_t; s]`, without s if
    `return_state=False`. The convolution uses zero padding and sees zeros at masked steps; the
    output of a fully masked row is 0.

    Args:
        filters: Number F of convolution filters.
        kernel_size: Kernel size of the convolution, in steps.
        lstm_units: Units U of the BiLSTM in each direction.
        activation: Activation of the convolution.
        kernel_initializer: Initializer of the convolution kernel and of W.
        seed: Integer seed of the initial weights.
        return_state: Whether the output ends with the states s of the BiLSTM.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: Boolean or integer `(B, T)`, True for real steps; defaults to the Keras mask of the
            inputs.
        return_attention_scores: Whether to also return the attention weights.

    Returns:
        `(B, F + 2 U)`, or `(B, F)` without the states; with `return_attention_scores` then the
        weights, `(B, T)`.

    Raises:
        ValueError: If a size is not positive or a mask is float.

    Reference:
        Er et al., Attention Pooling-based Convolutional Neural Network for Sentence
        Modelling, 2016.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import AttentiveConvPooling
        >>> layer = AttentiveConvPooling(4, kernel_size=1, lstm_units=2)
        >>> output, weights = layer(np.ones((1, 6, 5)), mask=np.array([[1, 1, 1, 1, 0, 0]]),
        ...                         return_attention_scores=True)
        >>> print(output.shape, ops.convert_to_numpy(weights).round(3))  # four equal words
        (1, 8) [[0.25 0.25 0.25 0.25 0.   0.  ]]
    """

    AXES = {"inputs": "BTD"}

    def __init__(
        self,
        filters: int,
        kernel_size: int,
        lstm_units: int,
        activation: Activation = "relu",
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        return_state: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(filters=filters, kernel_size=kernel_size, lstm_units=lstm_units)
        self.filters = filters
        self.kernel_size = kernel_size
        self.lstm_units = lstm_units
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.return_state = return_state
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        conv_seed, lstm_seed, attention_seed = split_seed(self.seed, 3)
        self.conv = keras.layers.Conv1D(
            self.filters,
            self.kernel_size,
            padding="same",
            activation=self.activation,
            kernel_initializer=seeded_initializer(self.kernel_initializer, conv_seed),
            dtype=self.dtype_policy,
            name="conv",
        )
        self.lstm = bidirectional(
            keras.layers.LSTM, self.lstm_units, lstm_seed, self.dtype_policy, "lstm"
        )
        self.attention = AttentionPooling(
            2 * self.lstm_units,
            score="query",
            kernel_initializer=self.kernel_initializer,
            seed=attention_seed,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.conv.build(input_shape)
        self.lstm.build((None, None, input_shape[-1]))
        self.attention.build((None, None, self.filters))
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, ...]:
        mask = as_mask(mask)
        features, hidden, query = self.encode(inputs, mask)
        pooled, weights = self.attention(
            features, mask=mask, query=query, return_attention_scores=True
        )
        output = ops.concatenate([pooled, query], axis=-1) if self.return_state else pooled
        return (output, weights) if return_attention_scores else output

    def encode(self, inputs: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the vectors before the pooling.

        Args:
            inputs: `(B, T, D)`.
            mask: Boolean `(B, T)`, True for real steps.

        Returns:
            `(c (B, T, F), outputs of the BiLSTM (B, T, 2 U), s (B, 2 U))`.
        """
        if mask is not None:
            inputs = ops.where(mask[..., None], inputs, 0)
        hidden, forward, _, backward, _ = run_rnn(self.lstm, inputs, mask)
        # On empty inputs, PyTorch's convolution raises and TensorFlow's returns another depth.
        batch, length = ops.shape(inputs)[:2]
        features = self.conv(pad_empty_axis(pad_empty_axis(inputs), axis=0))[:batch, :length]
        return features, hidden, ops.concatenate([forward, backward], axis=-1)

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], self.filters + 2 * self.lstm_units * self.return_state

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "lstm_units": self.lstm_units,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
            "return_state": self.return_state,
        }
