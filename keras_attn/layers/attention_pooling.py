"""Attention of one query over a sequence."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import dropout_generator, seeded_initializer, split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import row_mask
from keras_attn.ops.products import linear, upcast_float16
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Activation, Initializer, Nest, Shape, Tensor

SCORES = "context", "linear", "query"


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionPooling(CheckedLayer):
    """Average of a sequence, weighted by what a vector finds of interest.

    `a = softmax_t(e)`, `output = sum_t a_t h_t`, with

    - `"context"`: `e_t = u^T activation(W h_t + b)`, u learned;
    - `"query"`: the same with u given, of the depth `units`;
    - `"linear"`: `e_t = activation(w^T h_t)`, no hidden units.

    A row with no step gives 0.

    Args:
        units: Hidden units of `"context"` and `"query"`; the depth of the inputs if None.
        activation: As in the formula.
        score: One of these.
        dropout: Share of weights dropped in training.
        kernel_initializer: Of W, u and w.
        seed: Integer for initial weights and dropout.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: Boolean or integer `(B, T)`, True at steps that count; Keras's own if None.
        lengths: Integers `(B,)`, the number of steps that count, from the first.
        query: `(B, units)`, for `"query"`.
        return_attention_scores: Also return the weights, before dropout.
        training: Whether dropout is on.

    Returns:
        `(B, D)`; then the weights `(B, T)` if asked for.

    Raises:
        ValueError: If an argument is out of range, unknown or given in vain, the inputs have not
            three dimensions, a mask is float, `lengths` are not `(B,)`, or a query is missing, of
            another shape, or given to another score.

    Reference:
        Yang et al., Hierarchical Attention Networks for Document Classification,
        2016, eq. 5-7.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import AttentionPooling
        >>> layer = AttentionPooling(score="linear", activation="linear",
        ...                          kernel_initializer="zeros")
        >>> value = np.array([[[1.0], [2.0], [9.0]]])
        >>> print(ops.convert_to_numpy(layer(value, lengths=np.array([2]))))
        [[1.5]]
    """

    AXES = {"inputs": "BTD", "query": "B..."}

    def __init__(self, units: int | None = None, activation: Activation = "tanh",
                 score: str = "context", dropout: float = 0.0,
                 kernel_initializer: Initializer = "glorot_uniform", seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_sizes(optional=True, units=units)
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}. Received: score={score!r}")
        if score == "linear":
            reject_unused('score="context" or "query"', units=(units, None))
        require_rates(dropout=dropout)
        self.units = units
        self.activation = keras.activations.get(activation)
        self.score = score
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.require_axes(inputs=input_shape)
        depth = input_shape[-1]
        kernel_seed, context_seed, dropout_seed = split_seed(self.seed, 3)
        units = 1 if self.score == "linear" else self.units or depth
        self.kernel = self.add_weight(
            name="kernel", shape=(depth, units),
            initializer=seeded_initializer(self.kernel_initializer, kernel_seed))
        self.bias = self.context = None
        if self.score != "linear":
            self.bias = self.add_weight(name="bias", shape=(units,), initializer="zeros")
        if self.score == "context":
            self.context = self.add_weight(
                name="context", shape=(units, 1),
                initializer=seeded_initializer(self.kernel_initializer, context_seed))
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None,
             query: Tensor | None = None, return_attention_scores: bool = False,
             training: bool | None = None, inputs_mask: Tensor | None = None
             ) -> Tensor | tuple[Tensor, ...]:
        # Keras calls its own mask `mask` where inputs are the one tensor, else `inputs_mask`.
        mask = row_mask(inputs_mask if mask is None else mask, lengths, ops.shape(inputs)[1])
        if (query is None) == (self.score == "query"):
            raise ValueError('A query goes with score="query". '
                             f"Received: query={query if query is None else query.shape}, "
                             f"score={self.score!r}")
        units = self.kernel.shape[-1]
        if query is not None and (len(query.shape) != 2 or query.shape[1] not in (None, units)):
            raise ValueError(f"{type(self).__name__} needs query (B, units), here (B, {units}). "
                             f"Received: query of shape {tuple(query.shape)}")
        weights = masked_softmax(self._logits(inputs, query), mask)
        dropout = self.dropout if training else 0.0
        pooled = weighted_average(weights[:, None], inputs, dropout, self.seed_generator)[:, 0]
        return (pooled, ops.cast(weights, inputs.dtype)) if return_attention_scores else pooled

    def _logits(self, inputs, query):
        # (B, T, D) x (D, U) -> (B, T, U) -> (B, T)
        hidden = linear(*upcast_float16(inputs, self.kernel))
        if self.bias is not None:
            hidden = hidden + ops.cast(self.bias, hidden.dtype)
        hidden = self.activation(hidden)
        if self.score == "linear":
            return hidden[..., 0]
        product, query = (linear, self.context) if query is None else (ops.matmul, query[..., None])
        return product(hidden, ops.cast(query, hidden.dtype))[..., 0]

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], input_shape[-1]

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(), "units": self.units, "score": self.score,
            "activation": keras.activations.serialize(self.activation), "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed}
