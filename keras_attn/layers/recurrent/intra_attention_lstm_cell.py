"""LSTM cell with attention to its own past states (LSTMN)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class IntraAttentionLSTMCell(CheckedLayer):
    """LSTM cell whose previous state is an attention average of all earlier states (LSTMN).

    - `a_i = softmax_i(v^T tanh(W_h h_i + W_x x_t + W_s s_{t-1}))` over the earlier steps i
    - `s_t = sum_i a_i h_i`, `m_t = sum_i a_i c_i`; both 0 at the first step
    - `i, f, o = sigmoid(W [s_t; x_t] + b)`, `g = tanh(W [s_t; x_t] + b)`, with separate kernels
    - `c_t = f m_t + i g`, `h_t = o tanh(c_t)`, the output

    A cell for `keras.layers.RNN`. It supports masks: masked steps are not added to the tape of h
    and c.

    Args:
        units: Depth of h and c.
        max_length: Number of steps L on the tape; later steps attend to the last L. In training,
            each time step stores a tape for the gradient, `(B, L, 2 units + attention_units)`.
        attention_units: Hidden units of the score; `units` if None.
        kernel_initializer: Initializer of all other kernels.
        recurrent_initializer: Initializer of the kernel of s in the gates.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: `(B, D)`.
        states: List of h and s, `(B, units)`; 1 at filled positions of the tape, `(B, L)`; and the
            flattened tape.

    Returns:
        (output, states): `(B, units)` and a list as above.

    Raises:
        ValueError: If an argument is not positive.

    Reference:
        Cheng et al., Long Short-Term Memory-Networks for Machine Reading, 2016,
        section 3.1, eq. 4-9.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import IntraAttentionLSTMCell
        >>> cell = IntraAttentionLSTMCell(1, max_length=3, kernel_initializer="ones",
        ...                               recurrent_initializer="zeros")
        >>> outputs = keras.layers.RNN(cell, return_sequences=True)(np.ones((1, 3, 1)))
        >>> print(keras.ops.convert_to_numpy(outputs)[0, :, 0].round(3))
        [0.37  0.571 0.623]
    """

    def __init__(
        self,
        units: int,
        max_length: int,
        attention_units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(units=units, max_length=max_length)
        require_sizes(optional=True, attention_units=attention_units)
        score_seed, *self._seeds = split_seed(seed, 3)
        self.units = units
        self.max_length = max_length
        self.attention_units = attention_units or units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.seed = seed
        self.score = AdditiveScore(
            self.attention_units,
            kernel_initializer=kernel_initializer,
            seed=score_seed,
            dtype=self.dtype_policy,
            name="score",
        )
        # h, c and the projected key of each step. Flat, as Keras broadcasts masks to (B, ...).
        self._width = 2 * units + self.attention_units
        self.state_size = [units, units, max_length, max_length * self._width]
        self.output_size = units

    def build(self, input_shape: Shape) -> None:
        units, depth = self.units, input_shape[-1]
        self.score.build((None, None, depth + units), (None, None, units))
        kernel_seed, recurrent_seed = self._seeds
        self.kernel = self.add_weight(
            name="kernel",
            shape=(depth, 4 * units),
            initializer=seeded_initializer(self.kernel_initializer, kernel_seed),
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(units, 4 * units),
            initializer=seeded_initializer(self.recurrent_initializer, recurrent_seed),
        )

        def forget_nothing(shape, dtype=None):
            parts = [ops.zeros((units,), dtype) for _ in range(4)]
            parts[1] = ops.ones((units,), dtype)
            return ops.concatenate(parts)

        self.bias = self.add_weight(name="bias", shape=(4 * units,), initializer=forget_nothing)
        self.built = True

    def get_initial_state(self, batch_size: int | None = None) -> list[Tensor]:
        return [ops.zeros((batch_size, size), self.compute_dtype) for size in self.state_size]

    def call(self, inputs: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        _, summary, filled, tape = states
        units, length, width = self.units, self.max_length, self._width
        places = ops.reshape(tape, (-1, length, width))
        query = self.score.project_query(ops.concatenate([inputs, summary], axis=-1)[:, None])
        logits = self.score.from_projected(query, places[..., 2 * units :])
        weights = masked_softmax(logits, filled[:, None] > 0.5)
        # (B, 1, L) x (B, L, 2 units): averages of h and c.
        found = weighted_average(weights, places[..., : 2 * units])[:, 0]
        summary, carry = found[:, :units], found[:, units:]
        gates = (
            ops.matmul(inputs, self.kernel) + ops.matmul(summary, self.recurrent_kernel) + self.bias
        )
        enter, keep, leave = ops.split(ops.sigmoid(gates[:, : 3 * units]), 3, axis=-1)
        carry = keep * carry + enter * ops.tanh(gates[:, 3 * units :])
        output = leave * ops.tanh(carry)
        newest = [output, carry, self.score.project_key(output)]
        # The newest entry is appended; the first, which is empty or the oldest, is dropped.
        tape = ops.concatenate([tape[:, width:], *newest], axis=-1)
        filled = ops.concatenate([filled[:, 1:], ops.ones_like(filled[:, :1])], axis=-1)
        return output, [output, summary, filled, tape]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "max_length": self.max_length,
            "attention_units": self.attention_units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "seed": self.seed,
        }
