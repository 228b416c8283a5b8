"""Luong's global attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention import Attention
from keras_attn.layers.cache import ignore_implicit_value_mask
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.products import linear
from keras_attn.types import Activation, Initializer, LayerLike, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LuongAttention(CheckedLayer):
    """Luong's global attention: combines the attention context with the decoder state.

    `c_t = sum_s a_t(s) h_s`, `output_t = tanh(W [c_t; h_t])`, where `h_t` is the decoder state
    after reading the word of step t (Bahdanau's query is the state before).

    Args:
        units: Depth of the output.
        score: See `Attention`; or a layer such as `LocationScore(…)`.
        attention_units: Hidden units of the scores `"concat"` and `"additive"`.
        attention: Layer that replaces `Attention`, such as `LocalAttention(…)` or
            `HardAttention(…)`; it brings its own score, units and dropout, so `score`,
            `attention_units` and `dropout` must keep their defaults.
        activation: Activation of the output. TensorFlow Addons has none by default.
        dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of W, `(V + Q, units)`; there is no bias.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        query: `(B, T, Q)`, the decoder states.
        value: `(B, S, V)`, the encoder states.
        key: `(B, S, K)`; defaults to `value`.

    The other call arguments match `attention`, including `cache` and `cache_index` of
    `Attention`, `query_positions` of `LocalAttention` and `return_draws` of `HardAttention`.

    Returns:
        Output `(B, T, units)`; then the further results of `attention`.

    Raises:
        ValueError: If an argument is out of range or unused, or a mask is float.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.1, eq. 5.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import LuongAttention
        >>> layer = LuongAttention(1, "dot", kernel_initializer="ones")
        >>> query, value = np.array([[[0.0, 0.5]]]), np.array([[[0.2, 0.0], [0.4, 0.0]]])
        >>> print(ops.convert_to_numpy(layer(query, value)).round(4))  # tanh(0.3 + 0.5)
        [[[0.664]]]
    """

    AXES = SEQUENCES
    SAME_BATCH = ("query",)

    def __init__(
        self,
        units: int,
        score: str | LayerLike = "bilinear",
        attention_units: int | None = None,
        attention: LayerLike | None = None,
        activation: Activation | None = "tanh",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(units=units)
        require_sizes(optional=True, attention_units=attention_units)
        if attention is not None:
            if not isinstance(attention, (dict, keras.layers.Layer)):
                raise ValueError(
                    "LuongAttention: attention must be a layer or None. Pass the "
                    f"name of a score as score. Received: attention={attention!r}"
                )
            if score != "bilinear" or attention_units is not None or dropout:
                raise ValueError(
                    "LuongAttention: score, attention_units and dropout have no effect with "
                    "attention. Set them in that layer. Received: attention, "
                    f"score={score!r}, attention_units={attention_units}, dropout={dropout}"
                )
        attention_seed, self._kernel_seed = split_seed(seed, 2)
        self._makes_attention = attention is None
        self.attention = as_layer(attention) or Attention(
            score,
            attention_units,
            dropout,
            seed=attention_seed,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.units = units
        self._score_name = score if isinstance(score, str) else None
        self.attention_units = attention_units
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        if not self.attention.built:
            self.attention.build(query_shape, value_shape, key_shape)
        context_shape = value_shape
        if isinstance(self.attention, CheckedLayer):  # other layers may lack the method
            context_shape = self.attention.compute_output_shape(query_shape, value_shape, key_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(context_shape[-1] + query_shape[-1], self.units),
            initializer=seeded_initializer(self.kernel_initializer, self._kernel_seed),
        )
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **ignore_implicit_value_mask(args, kwargs))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: Tensor | int | None = None,
        query_positions: Tensor | None = None,
        return_draws: bool | None = None,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        # Not every attention layer accepts these.
        given = {
            "cache": cache,
            "cache_index": cache_index,
            "query_positions": query_positions,
            "return_draws": return_draws,
        }
        found = self.attention(
            query,
            value,
            key,
            query_mask=query_mask,
            value_mask=value_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
            **{name: x for name, x in given.items() if x is not None},
        )
        context, *others = found if isinstance(found, tuple) else (found,)
        output = self.join(context, query)
        return (output, *others) if others else output

    def join(self, context: Tensor, query: Tensor) -> Tensor:
        """Computes the output from the attention context and the query."""
        joined = ops.concatenate([context, ops.cast(query, context.dtype)], axis=-1)
        return self.activation(linear(joined, ops.cast(self.kernel, joined.dtype)))

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], self.units)

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        own = self._makes_attention
        return {
            **super().get_config(),
            "units": self.units,
            "score": self.attention.get_config()["score"] if own else self._score_name,
            "attention_units": self.attention_units,
            "attention": None if own else layer_config(self.attention, self),
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
