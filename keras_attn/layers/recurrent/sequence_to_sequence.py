"""Encoder-decoder without attention (many-to-many)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.padded_rnn import run_rnn
from keras_attn.layers.recurrent.sequence_to_vector import SequenceToVector
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.ops.masks import as_mask
from keras_attn.types import LayerLike, Nest, Shape, Tensor

CONTEXTS = "states", "summary", "input", "both"


@keras.saving.register_keras_serializable(package="keras_attn")
class SequenceToSequence(CheckedLayer):
    """A recurrent encoder and a recurrent decoder without attention (many-to-many).

    With c the summary of the encoder outputs:

    - `"states"`: the last encoder states are the initial decoder states;
    - `"summary"`: the first initial state of the decoder is `tanh(W c)`, the others are 0;
    - `"input"`: the input of each decoder step is `[x; c]`;
    - `"both"`: `"summary"` and `"input"` together.

    Args:
        encoder: Keras cell, such as `LSTMCell`.
        decoder: Keras cell.
        context: `"states"`, `"summary"`, `"input"` or `"both"`.
        reduce: How c is computed, see `SequenceToVector`.
        seed: Integer seed of the initial weights of W and of the attention.

    Call arguments:
        source: `(B, S, D)`.
        target: `(B, T, E)`, the inputs of the decoder steps.
        source_mask: Boolean or integer `(B, S)`; defaults to the Keras mask.
        target_mask: Boolean or integer `(B, T)`, likewise: a masked step repeats the previous
            output.

    Returns:
        Decoder outputs, `(B, T, units)`. Outside of functional models they carry the target mask as
        Keras mask.

    Raises:
        ValueError: If an argument is unknown, a mask is float, or with `"states"` the states of the
            cells differ in size.

    Reference:
        Sutskever et al., Sequence to Sequence Learning with Neural Networks, 2014,
        `"states"`; Cho et al., Learning Phrase Representations using RNN
        Encoder-Decoder, 2014, appendix A, `"both"`.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import SequenceToSequence
        >>> adders = [keras.layers.SimpleRNNCell(
        ...     1, activation=None, kernel_initializer="ones", recurrent_initializer="ones")
        ...     for _ in range(2)]
        >>> source, target = np.array([[[1.0], [2.0]]]), np.array([[[10.0], [20.0]]])
        >>> print(keras.ops.convert_to_numpy(SequenceToSequence(*adders)(source, target))[0, :, 0])
        [13. 33.]
    """

    AXES = {"source": "BSD", "target": "BTE"}

    def __init__(
        self,
        encoder: LayerLike,
        decoder: LayerLike,
        context: str = "states",
        reduce: str = "last",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if context not in CONTEXTS:
            raise ValueError(
                f"SequenceToSequence: context must be one of {', '.join(CONTEXTS)}. "
                f"Received: context={context!r}"
            )
        reduce_seed, self._kernel_seed = split_seed(seed, 2)
        encoder, decoder = as_layer(encoder), as_layer(decoder)
        if context == "states" and encoder.state_size != decoder.state_size:
            raise ValueError(
                "SequenceToSequence: context='states' requires cells with equal state sizes. "
                f"Received: encoder={encoder.state_size}, decoder={decoder.state_size}"
            )
        self.context = context
        self.reduce = reduce
        self.seed = seed
        self.encoder, self.decoder = (
            keras.layers.RNN(
                cell, return_sequences=True, return_state=True, name=name, dtype=self.dtype_policy
            )
            for cell, name in ((encoder, "encoder"), (decoder, "decoder"))
        )
        self.summary = SequenceToVector(
            reduce, seed=reduce_seed, dtype=self.dtype_policy, name="summary"
        )
        self.supports_masking = True

    def build(self, source_shape: Shape, target_shape: Shape) -> None:
        self.encoder.build(source_shape)
        encoded = self.encoder.compute_output_shape(source_shape)[0]
        depth = target_shape[-1]
        if self.context != "states":
            self.summary.build(encoded)
        if self.context in ("input", "both"):
            depth += encoded[-1]
        self.decoder.build((*target_shape[:2], depth))
        self.kernel = None
        if self.context in ("summary", "both"):
            first = keras.tree.flatten(self.decoder.state_size)[0]
            self.kernel = self.add_weight(
                name="kernel",
                shape=(encoded[-1], first),
                initializer=seeded_initializer("glorot_uniform", self._kernel_seed),
            )
        self.built = True

    def call(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        source_mask = as_mask(source_mask, "source_mask")
        target_mask = as_mask(target_mask, "target_mask")
        encoded, *states = run_rnn(self.encoder, source, source_mask, training=training)
        if self.context != "states":
            states = None
            summary = self.summary(encoded, mask=source_mask)
        if self.context in ("input", "both"):
            beside = ops.broadcast_to(summary[:, None], (*ops.shape(target)[:2], summary.shape[-1]))
            target = ops.concatenate([target, beside], axis=-1)
        if self.kernel is not None:
            states = self.decoder.get_initial_state(batch_size=ops.shape(target)[0])
            flat = keras.tree.flatten(states)
            flat[0] = ops.tanh(ops.matmul(summary, self.kernel))
            states = keras.tree.pack_sequence_as(states, flat)
        return run_rnn(self.decoder, target, target_mask, initial_state=states, training=training)[
            0
        ]

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None  # Keras would attach the source mask; the decoder attached the target mask

    def compute_output_shape(self, source_shape: Shape, target_shape: Shape) -> Shape:
        depth = self.decoder.compute_output_shape(target_shape)[0][-1]
        return (*target_shape[:2], depth)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoder": layer_config(self.encoder.cell, self),
            "decoder": layer_config(self.decoder.cell, self),
            "context": self.context,
            "reduce": self.reduce,
            "seed": self.seed,
        }
