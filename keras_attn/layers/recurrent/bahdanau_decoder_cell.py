"""Decoder cell of Bahdanau et al."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.recurrent.memory import attend_to_memory, group_by_source, make_memory
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.products import linear
from keras_attn.types import Initializer, Shape, Tensor

READOUTS = "maxout", "tanh"
READOUT_STATES = "previous", "current"


@keras.saving.register_keras_serializable(package="keras_attn")
class BahdanauDecoderCell(CheckedLayer):
    """GRU decoder cell with additive attention, for use in `RecurrentDecoder`.

    With x the embedding of the previous word, s the previous state and h the memory:

    - `c = sum_j a_j h_j`, `a = softmax_j(v^T tanh(W_a s + U_a h_j))`
    - `z, r = sigmoid(W x + U s + C c + b)`, each with separate kernels
    - `s' = tanh(W x + U (r s) + C c + b)`
    - the new state is `(1 - z) s + z s'`; the z of Keras's GRU is 1 minus this one
    - the readout is `t = maxout(U_o s + V_o x + C_o c + b)`, over pairs of units; with
      `readout_state="current"` it is computed from the new state instead of s.

    The two readouts are two statements of the paper: equation 4 and section 3.1 have
    `g(y_{i-1}, s_i, c_i)`, appendix A.2.2 and the authors' code use `s_{i-1}`.

    The initial state is `tanh(W_s initial_state)`.

    Args:
        units: Depth of the state.
        attention_units: Hidden units of the score; `units` if None.
        readout_units: Depth of the readout; `units` if None.
        readout: `"maxout"`, or `"tanh"` with as many units.
        kernel_initializer: Initializer of all other kernels.
        recurrent_initializer: Initializer of the kernels U of s in gates and candidate.
        seed: Integer seed of the initial weights.
        readout_state: State that the readout is computed from: `"previous"`, s, or `"current"`.

    Call arguments:
        inputs: `(N, P)`, as returned by `prepare_inputs`.
        states: List of the state, `(N, units)`.
        memory: As returned by `prepare_memory`.

    Returns:
        (outputs, states); the outputs are an input of `read_out`.

    Raises:
        ValueError: If an argument is out of range or unknown, or the depth of `initial_state` is
            not `units`.

    Reference:
        Bahdanau et al., Neural Machine Translation by Jointly Learning to Align
        and Translate, 2015, appendix A.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import BahdanauDecoderCell, RecurrentDecoder
        >>> decoder = RecurrentDecoder(BahdanauDecoderCell(4), vocabulary_size=9, embedding_dim=3)
        >>> logits, alignments = decoder(np.array([[1, 5, 6]]), np.ones((1, 2, 8)))
        >>> print(logits.shape, keras.ops.convert_to_numpy(alignments)[0])  # two states alike
        (1, 3, 9) [[0.5 0.5]
         [0.5 0.5]
         [0.5 0.5]]
    """

    def __init__(
        self,
        units: int,
        attention_units: int | None = None,
        readout_units: int | None = None,
        readout: str = "maxout",
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        seed: int | None = None,
        readout_state: str = "previous",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(units=units)
        require_sizes(optional=True, attention_units=attention_units, readout_units=readout_units)
        if readout not in READOUTS:
            raise ValueError(
                f"BahdanauDecoderCell: readout must be one of {', '.join(READOUTS)}. "
                f"Received: readout={readout!r}"
            )
        if readout_state not in READOUT_STATES:
            raise ValueError(
                f"BahdanauDecoderCell: readout_state must be one of {', '.join(READOUT_STATES)}. "
                f"Received: readout_state={readout_state!r}"
            )
        score_seed, *self._seeds = split_seed(seed, 7)
        self.units = units
        self.attention_units = attention_units or units
        self.readout_units = readout_units or units
        self.readout = readout
        self.readout_state = readout_state
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

    @property
    def output_size(self) -> int:
        """Depth of the readout."""
        return self.readout_units

    def build(self, input_shape: Shape, memory_shape: Shape) -> None:
        units, value_dim = self.units, memory_shape[-1]
        read = self.readout_units * (2 if self.readout == "maxout" else 1)
        self.score.build((None, None, units), memory_shape)
        kernel, recurrent = self.kernel_initializer, self.recurrent_initializer
        # Columns of z, r and s' side by side; the input kernel also has those of the readout.
        weights = {
            "input_kernel": ((input_shape[-1], 3 * units + read), kernel),
            "context_kernel": ((value_dim, 3 * units), kernel),
            "gate_kernel": ((units, 2 * units), recurrent),
            "candidate_kernel": ((units, units), recurrent),
            "initial_kernel": ((units, units), kernel),
            "readout_kernel": ((units + value_dim, read), kernel),
        }
        for (name, (shape, initializer)), seed in zip(weights.items(), self._seeds, strict=True):
            setattr(
                self,
                name,
                self.add_weight(
                    name=name, shape=shape, initializer=seeded_initializer(initializer, seed)
                ),
            )
        self.bias = self.add_weight(name="bias", shape=(3 * units + read,), initializer="zeros")
        self.built = True

    def prepare_memory(self, memory: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Computes what is the same for all steps; see `keras_attn.layers.recurrent.memory`."""
        return make_memory(memory, mask, self.score, self.compute_dtype)

    def prepare_inputs(self, inputs: Tensor) -> Tensor:
        """`W x + b` of gates, candidate and readout, `(..., 3 units + read)`, from x `(..., E)`."""
        kernel, bias = (ops.cast(weight, inputs.dtype) for weight in (self.input_kernel, self.bias))
        return linear(inputs, kernel, bias)

    def start(self, initial_state: Tensor | None, batch_size: int) -> list[Tensor]:
        """The states before the first step.

        Args:
            initial_state: `(N, units)`, such as the last state of the backward encoder; if None,
                the state is 0.
            batch_size: N.
        """
        if initial_state is None:
            return [ops.zeros((batch_size, self.units), self.compute_dtype)]
        if initial_state.shape[-1] != self.units:
            raise ValueError(
                "BahdanauDecoderCell: the depth of initial_state must be "
                f"units={self.units}. "
                f"Received: initial_state.shape={tuple(initial_state.shape)}"
            )
        initial_state = ops.cast(initial_state, self.compute_dtype)
        kernel = ops.cast(self.initial_kernel, self.compute_dtype)
        return [ops.tanh(ops.matmul(initial_state, kernel))]

    def call(
        self,
        inputs: Tensor,
        states: list[Tensor],
        memory: dict[str, Tensor],
        index: Tensor | int = 0,
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        (state,), units = states, self.units
        context, weights = group_by_source(
            lambda query: attend_to_memory(self.score, query, memory), state[:, None], memory
        )
        context = context[:, 0]
        given = inputs[:, : 3 * units] + ops.matmul(context, self.context_kernel)
        gates = ops.sigmoid(given[:, : 2 * units] + ops.matmul(state, self.gate_kernel))
        update, reset = gates[:, :units], gates[:, units:]
        candidate = ops.tanh(
            given[:, 2 * units :] + ops.matmul(reset * state, self.candidate_kernel)
        )
        new = state + update * (candidate - state)
        read = state if self.readout_state == "previous" else new
        return {"state": read, "context": context, "weights": weights[:, 0]}, [new]

    def read_out(
        self,
        outputs: dict[str, Tensor],
        inputs: Tensor,
        memory: dict[str, Tensor],
        index: Tensor | int = 0,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Computes the features from which words are predicted, for many steps at once.

        Args:
            outputs: Outputs of the calls, `(N, T, ...)` each.
            inputs: Inputs of the steps, `(N, T, P)`.

        Returns:
            `(N, T, readout_units)` and the attention weights, `(N, T, S)`.
        """
        found = ops.concatenate([outputs["state"], outputs["context"]], axis=-1)
        kernel = ops.cast(self.readout_kernel, found.dtype)
        found = linear(found, kernel)
        found = found + inputs[..., 3 * self.units :]
        if self.readout == "tanh":
            return ops.tanh(found), outputs["weights"]
        pairs = ops.reshape(found, (*ops.shape(found)[:-1], self.readout_units, 2))
        return ops.maximum(pairs[..., 0], pairs[..., 1]), outputs["weights"]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "attention_units": self.attention_units,
            "readout_units": self.readout_units,
            "readout": self.readout,
            "readout_state": self.readout_state,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "seed": self.seed,
        }
