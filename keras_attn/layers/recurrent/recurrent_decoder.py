"""Recurrent decoder of sequence-to-sequence models."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.padded_rnn import add_embedding
from keras_attn.layers.recurrent.time_loop import (
    advance_seeds,
    step_seeds,
    without_weight_gradients,
)
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.layers.shapes import require_axes
from keras_attn.ops.arguments import require_probabilities, require_rates, require_sizes
from keras_attn.ops.products import linear
from keras_attn.ops.time_loop import run_time_loop
from keras_attn.types import LayerLike, Nest, Shape, Tensor

LEVELS = "sequence", "token"


@keras.saving.register_keras_serializable(package="keras_attn")
class RecurrentDecoder(CheckedLayer):
    """Autoregressive recurrent decoder with attention, teacher forcing and scheduled sampling.

    The input of a step is the previous word: the target's (teacher forcing), or the decoder's own
    prediction. Which steps use teacher forcing is drawn before the loop; step 0 always does, as
    its input is the beginning-of-sequence token. If not all steps do, a first loop, without
    gradient and dropout, predicts the missing words; then all steps run with known inputs. So the
    only loop with a gradient contains just the cell, while embeddings, input projections of the
    cell and logits are products over all steps. Loops do not stop at an end-of-sequence token, and
    the results have no Keras mask: positions after it must have weight 0 in the loss.

    Args:
        cell: `AttentionCell`, `BahdanauDecoderCell`, or a layer with the same interface:
            `build(input_shape, memory_shape)`; `output_size`; `prepare_memory(memory, mask)` and
            `prepare_inputs(embedded)`, computed once for all steps;
            `start(initial_state, batch_size)`, the initial states;
            `call(inputs, states, memory, index)`, a step that returns the nests outputs and states;
            `read_out(outputs, inputs, memory, index, training)`, features `(B, T, output_size)` and
            alignments `(B, T, S)`; if its attribute `draws` is true, then a dictionary of draws.
        vocabulary_size: Target vocabulary size V.
        embedding_dim: Depth of the target embeddings.
        teacher_forcing_ratio: Default probability of teacher forcing for a step in training; or a
            function of the number of training steps so far, such as a schedule of
            `keras.optimizers.schedules`. At inference the default is 1. Steps are only
            counted if the training loop keeps updates of non-trainable variables: `fit` does, the
            trainer of `keras_attn.training` does not.
        level: `"sequence"`: one draw for all steps of a target; `"token"`: one draw per step.
        dropout: Dropout rate of the embeddings and of the features from which logits are computed.
        seed: Integer seed of the initial weights, dropout and draws, excluding the cell's.

    Call arguments:
        target_ids: Integers `(B, T)`, the target from its beginning-of-sequence token;
            right-padded.
        memory: `(B, S, D)`, the encoder states.
        memory_mask: Boolean or integer `(B, S)`, False for padding; defaults to the Keras mask.
        initial_state: Argument of `cell.start`; None selects the initial state of the cell.
        teacher_forcing_ratio: Overrides the default for this call: a number or a scalar tensor.
        cache: None, or the states from `start_decoding`; then all steps use teacher forcing.
        cache_index: Integer scalar, the index of the first step. With a cache, `target_ids` are
            `(B R, T)`, and memory comes from `start_decoding`.
        training: Whether to apply dropout and the default `teacher_forcing_ratio`.
        return_draws: Whether to also return what the loss of an `AttentionCell` with
            `HardAttention("reinforce")` is computed from: a dictionary of the `log_probability` and
            `entropy` of the steps, float32 `(B, T)`, and `baseline_logits` `(B, T, V)`, the logits
            with the same input words but the most likely keys and without dropout, which have no
            gradient.

    Returns:
        Logits `(B, T, V)` of each next word, and alignments `(B, T, S)`, the attention weights;
        then the draws if requested; then the updated cache if one was given.

    Raises:
        ValueError: If an argument is out of range or unknown, or `return_draws` is used with a
            cache or a cell without draws.

    Reference:
        Bengio et al., Scheduled Sampling for Sequence Prediction with Recurrent
        Neural Networks, 2015; Rennie et al., Self-critical Sequence Training for
        Image Captioning, 2017 (the baseline).

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import LuongAttention
        >>> from keras_attn.layers import AttentionCell, RecurrentDecoder
        >>> cell = AttentionCell(keras.layers.GRUCell(4), LuongAttention(4))
        >>> decoder = RecurrentDecoder(cell, vocabulary_size=9, embedding_dim=3)
        >>> memory, mask = np.ones((1, 2, 8)), np.array([[1, 0]])
        >>> logits, alignments = decoder(np.array([[1, 5, 6]]), memory, mask)
        >>> print(keras.ops.convert_to_numpy(alignments))
        [[[1. 0.]
          [1. 0.]
          [1. 0.]]]
    """

    AXES = {"target_ids": "BT"}  # with a cache, the memory is a dictionary

    def __init__(
        self,
        cell: LayerLike,
        vocabulary_size: int,
        embedding_dim: int,
        teacher_forcing_ratio: float | Callable[[Tensor], Tensor] | dict[str, Any] = 1.0,
        level: str = "sequence",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(vocabulary_size=vocabulary_size, embedding_dim=embedding_dim)
        ratio = as_layer(teacher_forcing_ratio)
        if not callable(ratio):
            require_probabilities(teacher_forcing_ratio=ratio)
        if level not in LEVELS:
            raise ValueError(
                f"RecurrentDecoder: level must be one of {', '.join(LEVELS)}. "
                f"Received: level={level!r}"
            )
        require_rates(dropout=dropout)
        self.cell = as_layer(cell)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.teacher_forcing_ratio = ratio
        self.level = level
        self.dropout = dropout
        self.seed = seed
        self.supports_masking = True

    def build(self, target_ids_shape: Shape, memory_shape: Shape) -> None:
        _require_shapes(target_ids_shape, memory_shape)
        table_seed, output_seed, dropout_seed, draw_seed = split_seed(self.seed, 4)
        self.embedding = add_embedding(
            self, "embedding", self.vocabulary_size, self.embedding_dim, table_seed
        )
        if not self.cell.built:
            self.cell.build((None, self.embedding_dim), memory_shape)
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(self.cell.output_size, self.vocabulary_size),
            initializer=seeded_initializer("glorot_uniform", output_seed),
        )
        self.dropout_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.draw_generator = keras.random.SeedGenerator(draw_seed, name="draws")
        self.training_steps = None
        if callable(self.teacher_forcing_ratio):
            self.training_steps = self.add_weight(
                name="training_steps", shape=(), dtype="int32", initializer="zeros", trainable=False
            )
        self.built = True

    def call(
        self,
        target_ids: Tensor,
        memory: Nest,
        memory_mask: Tensor | None = None,
        initial_state: Nest = None,
        teacher_forcing_ratio: Tensor | float | None = None,
        cache: Nest = None,
        cache_index: Tensor | int | None = None,
        training: bool | None = None,
        return_draws: bool = False,
    ) -> tuple[Any, ...]:
        target_ids = ops.cast(target_ids, "int32")
        if return_draws and (cache is not None or not self.draws):
            raise ValueError(
                "RecurrentDecoder: return_draws requires an AttentionCell with "
                'HardAttention("reinforce"), and no cache. '
                f"Received: cell={self.cell}{', a cache' * (cache is not None)}"
            )
        if cache is not None:
            logits, alignments, _, states = self._run_forced(
                target_ids, cache, memory, cache_index, False
            )
            return logits, alignments, states
        _require_shapes(target_ids.shape, memory.shape)
        memory = self.cell.prepare_memory(memory, memory_mask)
        states = self.cell.start(initial_state, ops.shape(target_ids)[0])
        ratio = self._current_ratio(teacher_forcing_ratio, training)
        if not isinstance(ratio, (int, float)) or ratio < 1:
            target_ids = self._sample_inputs(target_ids, ratio, states, memory)
        logits, alignments, draws, _ = self._run_forced(target_ids, states, memory, 0, training)
        if not return_draws:
            return logits, alignments
        with without_weight_gradients(self):
            states, memory = keras.tree.map_structure(ops.stop_gradient, (states, memory))
            baseline, *_ = self._run_forced(target_ids, states, memory, 0, False)
        return logits, alignments, {**draws[0], "baseline_logits": ops.stop_gradient(baseline)}

    @property
    def draws(self) -> bool:
        """Whether the attention samples keys for REINFORCE; see `AttentionCell`."""
        return getattr(self.cell, "draws", False)

    def start_decoding(
        self,
        memory: Tensor,
        memory_mask: Tensor | None = None,
        initial_state: Nest = None,
        rows: int = 1,
    ) -> tuple[Nest, dict[str, Tensor]]:
        """Prepares step-by-step decoding.

        Args:
            memory: As in a call.
            memory_mask: As in a call.
            initial_state: As in a call.
            rows: Number of targets R per source, such as the beam size.

        Returns:
            (cache, memory): the states of each target, a nest of `(B R, ...)`, and what the targets
            of a source share. Pass both to a call, and the cache that it returns to the next call.
        """
        if not self.built:
            self.build((None, None), memory.shape)
        prepared = self.cell.prepare_memory(memory, memory_mask)
        states = self.cell.start(initial_state, ops.shape(memory)[0])
        if rows > 1:
            states = keras.tree.map_structure(lambda x: ops.repeat(x, rows, axis=0), states)
        return states, prepared

    def _current_ratio(self, given, training):
        if given is not None or not training:
            return 1.0 if given is None else given
        if self.training_steps is None:
            return self.teacher_forcing_ratio
        ratio = self.teacher_forcing_ratio(self.training_steps.value)
        self.training_steps.assign_add(1)
        return ratio

    def _sample_inputs(self, target_ids, ratio, states, memory):
        """The input words of the steps, `(B, T)`: the target's if forced, else predicted ones."""
        rows, length = ops.shape(target_ids)
        shape = (rows, 1 if self.level == "sequence" else length)
        if isinstance(ratio, (int, float)) and ratio <= 0:
            forced = ops.zeros(shape, "bool")
        else:
            chance = keras.random.uniform(shape, dtype="float32", seed=self.draw_generator)
            forced = chance < ratio
        forced = ops.logical_or(forced, ops.arange(length, dtype="int32") == 0)
        sequence = ops.stack([target_ids, ops.cast(forced, "int32")], axis=-1)

        def step(x, carried):
            index, states, predicted = carried
            ids = ops.where(x[:, 1] > 0, x[:, 0], predicted)
            inputs = self.cell.prepare_inputs(self._embed(ids))
            outputs, states = self.cell(inputs, states, memory, index=index, training=False)
            outputs = keras.tree.map_structure(lambda one: one[:, None], outputs)
            logits, *_ = self._logits(outputs, inputs[:, None], memory, index, False)
            predicted = ops.cast(ops.argmax(logits[:, 0], axis=-1), "int32")
            return ids, (index + 1, states, predicted)

        with without_weight_gradients(self):
            states, memory = keras.tree.map_structure(ops.stop_gradient, (states, memory))
            start = ops.zeros((), "int32"), states, ops.zeros((rows,), "int32")
            return run_time_loop(step, sequence, start)[0]

    def _run_forced(self, ids, states, memory, index, training):
        """Logits, alignments, a list of draws or of nothing, and last states of forced steps."""
        index = ops.cast(index, "int32")
        x = drop(self._embed(ids), self.dropout, self.dropout_generator, training)
        inputs = self.cell.prepare_inputs(x)

        def step(x, carried):
            index, states = carried
            with step_seeds(self.cell, index) if training else contextlib.nullcontext():
                outputs, states = self.cell(x, states, memory, index=index, training=training)
            return outputs, (index + 1, states)

        if ids.shape[1] == 1:
            outputs, states = self.cell(
                inputs[:, 0], states, memory, index=index, training=training
            )
            outputs = keras.tree.map_structure(lambda one: one[:, None], outputs)
        else:
            outputs, (_, states) = run_time_loop(step, inputs, (index, states))
            if training:
                advance_seeds(self.cell, ops.shape(ids)[1])
        logits, alignments, *draws = self._logits(outputs, inputs, memory, index, training)
        return logits, alignments, draws, states

    def _embed(self, ids):
        # The cell may have another dtype policy.
        return ops.cast(ops.take(self.embedding, ids, axis=0), self.cell.compute_dtype)

    def _logits(self, outputs, inputs, memory, index, training):
        found, alignments, *draws = self.cell.read_out(
            outputs, inputs, memory, index, training=training
        )
        found = drop(found, self.dropout, self.dropout_generator, training)
        found, alignments = (ops.cast(x, self.compute_dtype) for x in (found, alignments))
        return linear(found, self.output_kernel), alignments, *draws

    def attention_of(self, results: tuple[Tensor, ...]) -> Tensor | None:
        """Selects the alignments from the results of a call; None if the cell has no attention."""
        return None if getattr(self.cell, "attention", self.cell) is None else results[1]

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(
        self, target_ids_shape: Shape, memory_shape: Shape
    ) -> tuple[Shape, Shape]:
        return ((*target_ids_shape, self.vocabulary_size), (*target_ids_shape, memory_shape[1]))

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        ratio = self.teacher_forcing_ratio
        return {
            **super().get_config(),
            "cell": layer_config(self.cell, self),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "teacher_forcing_ratio": (
                keras.saving.serialize_keras_object(ratio) if callable(ratio) else ratio
            ),
            "level": self.level,
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _require_shapes(target_ids_shape, memory_shape):
    require_axes(
        "RecurrentDecoder",
        {"target_ids": "BT", "memory": "BSD"},
        {"target_ids": target_ids_shape, "memory": memory_shape},
    )
