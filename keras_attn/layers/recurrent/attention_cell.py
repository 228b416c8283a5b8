"""Decoder cell that combines any recurrent cell with attention."""

import inspect
from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention import Attention
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.expanded_window_attention import ExpandedWindowAttention
from keras_attn.layers.hard_attention import HardAttention
from keras_attn.layers.local_attention import LocalAttention
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.mixed_attention import MixedAttention
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.padded_rnn import with_nonempty_batch
from keras_attn.layers.recurrent.memory import attend_to_memory, group_by_source, make_memory
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.types import LayerLike, Nest, Shape, Tensor

ORDERS = "attend_last", "attend_first"
# Layers that center a window at the position of the query, or predict the center.
WINDOWED = LocalAttention, MixedAttention, ExpandedWindowAttention
DRAWS = "log_probability", "entropy"


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionCell(CheckedLayer):
    """A Keras recurrent cell combined with attention, for use in `RecurrentDecoder`.

    With x the embedding of the previous word, s the previous state and h the memory:

    - `"attend_last"`: `s_t = cell([x; a_{t-1}], s)`, `a_t = attention(s_t, h)`, the output;
      `a_0 = 0`. Without input feeding `s_t = cell(x, s)`.
    - `"attend_first"`: `a_t = attention(s, h)`, `s_t = cell([x; a_t], s)`, the output. With
      `query_inputs` the query is `[x; s]`; with `combine`, the input of the cell is
      `combine([x; a_t])`.

    `initial_state` contains the initial states of the cell. Without input feeding, `"attend_last"`
    computes the attention of all steps at once.

    Args:
        cell: Keras cell, such as `LSTMCell`, `GRUCell` or `StackedRNNCells`, without dropout.
            s_t is the output of the (last) cell.
        attention: `LuongAttention`, `Attention`, `LocalAttention`, `HardAttention`,
            `MixedAttention`, `ExpandedWindowAttention`, or another layer with the same call
            arguments. None disables attention; the output is then `s_t`. The weights of several
            heads are averaged. Windows of monotonic alignment are centered at the index of the
            step. A layer with `project_memory` projects the memory once for all steps.
        order: `"attend_last"` or `"attend_first"`.
        input_feeding: Whether the previous attention output is an input of the cell.
        query_inputs: Whether the query includes x; requires `"attend_first"`.
        combine: Layer from `[x; a_t]` to the input of the cell, such as
            `keras.layers.Dense(units, "relu")`; requires `"attend_first"`.

    Call arguments:
        inputs: `(N, E)`.
        states: As returned by `start`.
        memory: As returned by `prepare_memory`.
        index: Integer scalar, the index of the step.
        training: Whether the attention is in training mode.

    Returns:
        (outputs, states); the outputs are an input of `read_out`.

    Attributes:
        draws: Whether the attention is `HardAttention("reinforce")`. `read_out` then also returns
            its draws, `(N, T)` each, the input of `reinforce_errors`.

    Raises:
        ValueError: If an argument is unknown, the cell has dropout, or the initial states have
            other sizes.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.3.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import LuongAttention
        >>> from keras_attn.layers import AttentionCell, RecurrentDecoder
        >>> cell = AttentionCell(keras.layers.LSTMCell(4), LuongAttention(5))
        >>> decoder = RecurrentDecoder(cell, vocabulary_size=9, embedding_dim=3)
        >>> logits, alignments = decoder(np.array([[1, 5, 6]]), np.ones((1, 2, 8)))
        >>> print(logits.shape, keras.ops.convert_to_numpy(alignments)[0])  # two states alike
        (1, 3, 9) [[0.5 0.5]
         [0.5 0.5]
         [0.5 0.5]]

        The decoder of PyTorch's first translation tutorial, for sources of at most 10 words:

        >>> from keras_attn.layers import Attention, LocationScore
        >>> cell = AttentionCell(
        ...     keras.layers.GRUCell(4),
        ...     Attention(LocationScore(10, use_bias=True)),
        ...     order="attend_first",
        ...     query_inputs=True,
        ...     combine=keras.layers.Dense(4, "relu"),
        ... )
        >>> decoder = RecurrentDecoder(cell, 9, 4, teacher_forcing_ratio=0.5, dropout=0.1)
    """

    def __init__(
        self,
        cell: LayerLike,
        attention: LayerLike | None,
        order: str = "attend_last",
        input_feeding: bool = True,
        query_inputs: bool = False,
        combine: LayerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if order not in ORDERS:
            raise ValueError(
                f"AttentionCell: order must be one of {', '.join(ORDERS)}. "
                f"Received: order={order!r}"
            )
        cell, attention, combine = as_layer(cell), as_layer(attention), as_layer(combine)
        if order != "attend_first" or attention is None:
            reject_unused(
                'order="attend_first" and an attention',
                query_inputs=(query_inputs, False),
                combine=(combine, None),
            )
        if attention is not None and not isinstance(attention, keras.layers.Layer):
            raise ValueError(
                "AttentionCell: attention must be a layer or None. "
                f"Received: attention={attention!r}"
            )
        if combine is not None and not isinstance(combine, keras.layers.Layer):
            raise ValueError(
                f"AttentionCell: combine must be a layer or None. Received: combine={combine!r}"
            )
        _require_call(attention)
        for one in getattr(cell, "cells", [cell]):
            if getattr(one, "dropout", 0) or getattr(one, "recurrent_dropout", 0):
                raise ValueError(
                    "AttentionCell: cells with dropout are not supported, as their dropout masks "
                    "cannot be carried through the time loop. Use the dropout of RecurrentDecoder "
                    f"instead. Received: cell={one}"
                )
        self.cell = cell
        self.attention = attention
        self.order = order
        self.input_feeding = input_feeding
        self.query_inputs = query_inputs
        self.combine: Any = combine
        inner = attention.attention if isinstance(attention, LuongAttention) else attention
        self._inner: Any = inner
        self.draws = isinstance(inner, HardAttention) and inner.estimator == "reinforce"
        self._projects_memory = hasattr(inner, "project_memory") and _takes(inner, "memory")
        self._feeds = attention is not None and input_feeding and order == "attend_last"
        # Exact types: subclasses may compute something else.
        score = getattr(inner, "score", None)
        additive = type(inner) is Attention and type(score) is AdditiveScore
        self._projecting = score if additive else None

    def build(self, input_shape: Shape, memory_shape: Shape) -> None:
        size = getattr(self.cell, "output_size", None) or self.cell.state_size
        while not isinstance(size, int):
            size = size[0]
        query, width = (None, None, size + input_shape[-1] * self.query_inputs), 0
        if self.attention is not None:
            if not self.attention.built:
                self.attention.build(query, memory_shape)
            width = self.attention.compute_output_shape(query, memory_shape)[-1]
        first = self.order == "attend_first"
        joined = (None, input_shape[-1] + (width if first or self._feeds else 0))
        if self.combine is not None:
            if not self.combine.built:
                self.combine.build(joined)
            joined = self.combine.compute_output_shape(joined)
        if not self.cell.built:
            self.cell.build(joined)
        self._width = width
        self.output_size = size if first or self.attention is None else width
        self.built = True

    def prepare_memory(self, memory: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        """Computes what is the same for all steps; see `keras_attn.layers.recurrent.memory`."""
        prepared = make_memory(memory, mask, self._projecting, self.compute_dtype)
        if self._projects_memory:
            prepared["heads"] = self._inner.project_memory(prepared["value"])
        return prepared

    def prepare_inputs(self, inputs: Tensor) -> Tensor:
        """Returns the inputs unchanged: the Keras cell projects them itself."""
        return inputs

    def start(self, initial_state: Nest, batch_size: int) -> dict[str, Nest]:
        """The states before the first step.

        Args:
            initial_state: States of the cell; defaults to the cell's own initial states.
            batch_size: N.
        """
        if initial_state is None:
            initial_state = self.cell.get_initial_state(batch_size=batch_size)
        if not keras.tree.is_nested(initial_state):
            initial_state = [initial_state]
        given = [tuple(x.shape) for x in keras.tree.flatten(initial_state)]
        sizes = keras.tree.flatten(self.cell.state_size)
        if [shape[1:] for shape in given] != [(size,) for size in sizes]:
            raise ValueError(
                "AttentionCell: initial_state must have the shapes of the cell's "
                f"states, {', '.join(f'(N, {size})' for size in sizes)}. "
                f"Received: initial_state of shapes {given}"
            )
        states = {
            "cell": keras.tree.map_structure(
                lambda x: ops.cast(x, self.compute_dtype), list(initial_state)
            )
        }
        if self._feeds:
            states["fed"] = ops.zeros((batch_size, self._width), self.compute_dtype)
        return states

    def call(
        self,
        inputs: Tensor,
        states: dict[str, Nest],
        memory: dict[str, Tensor],
        index: Tensor | int = 0,
        training: bool | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Nest]]:
        own = states["cell"]
        if self.attention is not None and self.order == "attend_first":
            # Each cell of a stack has a tensor or a list of tensors as state.
            top = own[-1] if len(getattr(self.cell, "cells", ())) > 1 else own
            top = keras.tree.flatten(top)[0]
            query = ops.concatenate([inputs, top], axis=-1) if self.query_inputs else top
            attended, outputs = self._attend_step(query, memory, index, training)
            inputs = ops.concatenate([inputs, attended], axis=-1)
            if self.combine is not None:
                inputs = self.combine(inputs)
            output, own = with_nonempty_batch(self.cell, inputs, own)
            return {"output": output, **outputs}, {"cell": own}
        if not self._feeds:
            output, own = with_nonempty_batch(self.cell, inputs, own)
            return {"output": output}, {"cell": own}
        inputs = ops.concatenate([inputs, states["fed"]], axis=-1)
        output, own = with_nonempty_batch(self.cell, inputs, own)
        attended, outputs = self._attend_step(output, memory, index, training)
        return {"output": attended, **outputs}, {"cell": own, "fed": attended}

    def read_out(
        self,
        outputs: dict[str, Tensor],
        inputs: Tensor,
        memory: dict[str, Tensor],
        index: Tensor | int = 0,
        training: bool | None = None,
    ) -> tuple[Any, ...]:
        """Computes the features from which words are predicted, for many steps at once.

        Args:
            outputs: Outputs of the calls, `(N, T, ...)` each.
            inputs: Inputs of the steps, `(N, T, E)`.
            memory: As in the call.
            index: Index of the first step.
            training: As in the call.

        Returns:
            `(N, T, output_size)` and the attention weights, `(N, T, S)`; 0 without attention. With
            `draws` then the dictionary of draws of `HardAttention`.
        """
        output = outputs["output"]
        if self.attention is None:
            size = ops.shape(memory["value"])[1]
            return output, ops.zeros((*ops.shape(output)[:2], size), output.dtype)
        if "weights" not in outputs:
            return self._attend(output, memory, index, training)
        draws = [{name: outputs[name] for name in DRAWS}] if self.draws else []
        return output, outputs["weights"], *draws

    def reinforce_errors(
        self, costs: Tensor, baselines: Tensor, draws: dict[str, Tensor], weights: Tensor
    ) -> Tensor:
        """`HardAttention.reinforce_errors` of all steps; requires `draws`."""
        affects_later = self._feeds or self.order == "attend_first"
        return self._inner.reinforce_errors(costs, baselines, draws, weights, affects_later)

    def _attend_step(self, query, memory, index, training):
        """The attended memory and the further outputs of a step, from its query `(N, Q)`."""
        attended, weights, *draws = self._attend(query[:, None], memory, index, training)
        draws = {name: x[:, 0] for found in draws for name, x in found.items()}
        return attended[:, 0], {"weights": weights[:, 0], **draws}

    def _attend(self, query, memory, index, training):
        return group_by_source(
            lambda grouped: self._attend_grouped(
                grouped, memory, index, ops.shape(query)[1], training
            ),
            query,
            memory,
        )

    def _attend_grouped(self, query, memory, index, length, training):
        inner = self._inner
        if self._projecting is not None:
            draws = []
            context, weights = attend_to_memory(
                self._projecting,
                query,
                memory,
                inner.dropout if training else 0.0,
                inner.seed_generator,
            )
        else:
            given = {}
            if isinstance(inner, WINDOWED) and inner.alignment == "monotonic":
                # The targets of a source are in one row; positions restart with each target.
                given["query_positions"] = index + (
                    ops.arange(ops.shape(query)[1], dtype="int32") % length
                )
            if self.draws:
                given["return_draws"] = True
            if self._projects_memory:
                given["memory"] = memory["heads"]
            context, weights, *draws = inner(
                query,
                None if self._projects_memory else memory["value"],
                value_mask=memory.get("mask"),
                return_attention_scores=True,
                training=training,
                **given,
            )
        if len(weights.shape) == 4:  # (B, H, T, S), of several heads
            weights = ops.mean(weights, axis=1)
        if inner is not self.attention:
            context = self.attention.join(context, query)
        return context, weights, *draws

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "cell": layer_config(self.cell, self),
            "attention": layer_config(self.attention, self),
            "order": self.order,
            "input_feeding": self.input_feeding,
            "query_inputs": self.query_inputs,
            "combine": layer_config(self.combine, self),
        }


def _takes(layer, name):
    """Whether a layer has a call argument of this name."""
    return name in inspect.signature(layer.call).parameters


def _require_call(attention):
    """Raises a ValueError for a layer whose call arguments are not those of `Attention`."""
    if attention is None:
        return
    parameters = inspect.signature(attention.call).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    missing = {"value", "value_mask", "return_attention_scores"} - parameters.keys()
    if missing:
        raise ValueError(
            "AttentionCell: attention must be a layer that is called with query and "
            f"value, such as Attention. Its call has no {', '.join(sorted(missing))}. "
            f"Received: attention={attention}"
        )
