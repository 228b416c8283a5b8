"""Attention pooling of a sequence into a vector."""

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
    """Pools a sequence into a vector with attention weights from a learned or given query.

    `a = softmax_t(e)`, `output = sum_t a_t h_t`, where

    - `"context"`: `e_t = u^T activation(W h_t + b)` with a learned context vector u;
    - `"query"`: the same with u given in the call, of depth `units`;
    - `"linear"`: `e_t = activation(w^T h_t)`, without a hidden layer.

    The output of a fully masked row is 0.

    Args:
        units: Hidden units of `"context"` and `"query"`; the depth of the inputs if None.
        activation: Activation in the formulas above.
        score: `"context"`, `"query"` or `"linear"`.
        dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of W, u and w.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: Boolean or integer `(B, T)`, True for real steps; defaults to the Keras mask of the
            inputs.
        lengths: Integers `(B,)`: the number of real steps of each row, counted from its first step.
        query: `(B, units)`, for `score="query"`.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        training: Whether to apply dropout.

    Returns:
        `(B, D)`; with `return_attention_scores` then the weights, `(B, T)`.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, the inputs do not have three
            axes, a mask is float, `lengths` is not of shape `(B,)`, or the query is missing, has
            another shape, or is given with another score.

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

    def __init__(
        self,
        units: int | None = None,
        activation: Activation = "tanh",
        score: str = "context",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(optional=True, units=units)
        if score not in SCORES:
            raise ValueError(
                f"AttentionPooling: score must be one of {', '.join(SCORES)}. "
                f"Received: score={score!r}"
            )
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
            name="kernel",
            shape=(depth, units),
            initializer=seeded_initializer(self.kernel_initializer, kernel_seed),
        )
        self.bias = self.context = None
        if self.score != "linear":
            self.bias = self.add_weight(name="bias", shape=(units,), initializer="zeros")
        if self.score == "context":
            self.context = self.add_weight(
                name="context",
                shape=(units, 1),
                initializer=seeded_initializer(self.kernel_initializer, context_seed),
            )
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        query: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        inputs_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        # Keras passes its implicit mask as `mask` if the inputs are the only tensor of the call,
        # else as `inputs_mask`.
        mask = row_mask(inputs_mask if mask is None else mask, lengths, ops.shape(inputs)[1])
        if (query is None) == (self.score == "query"):
            raise ValueError(
                'AttentionPooling: score="query" requires a query, and other scores do not '
                f"support one. Received: query={query if query is None else query.shape}, "
                f"score={self.score!r}"
            )
        units = self.kernel.shape[-1]
        if query is not None and (len(query.shape) != 2 or query.shape[1] not in (None, units)):
            raise ValueError(
                f"{type(self).__name__}: query must be of shape (B, {units}). "
                f"Received: query of shape {tuple(query.shape)}"
            )
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
            **super().get_config(),
            "units": self.units,
            "score": self.score,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
