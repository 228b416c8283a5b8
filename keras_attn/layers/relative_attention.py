"""Multi-head self-attention with relative positions."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads, head_mask
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.layers.window_attention import self_attention_mask
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import as_mask, causal_mask, combine_masks
from keras_attn.ops.positions import sinusoidal_positions
from keras_attn.ops.products import linear, upcast_float16
from keras_attn.ops.relative import relative_distances, relative_shift, relative_shift_transpose
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Initializer, Shape, Tensor

STYLES = "xl", "shaw"


@keras.saving.register_keras_serializable(package="keras_attn")
class RelativeAttention(CheckedLayer):
    """Multi-head self-attention whose scores depend on the distance of query and key.

    - `"xl"`: `(q_i + u)^T k_j + (q_i + v)^T W_R r_{i-j}`, where r is the sinusoidal encoding of the
      distance and u and v are learned per head; divided by `sqrt(key_dim)`;
    - `"shaw"`: `q_i^T (k_j + a_{i-j}) / sqrt(key_dim)`, and the values are `v_j + b_{i-j}`, where a
      and b are learned per distance; distances are clipped to `max_distance`.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        style: `"xl"` or `"shaw"`.
        max_distance: Maximum distance of `"shaw"`, on either side.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases; in the "xl" paper they have none.
        kernel_initializer: Initializer of the kernels and of a and b.
        bias_initializer: Initializer of the biases, u and v.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        query: `(B, T, D)`.
        value: The query itself, or None.
        key: The query itself, or None.
        query_mask: Boolean or integer `(B, T)`; masked queries attend to nothing. Defaults to the
            Keras mask.
        value_mask: Boolean or integer `(B, M + T)`, True at keys that may be attended to, the
            memory first; defaults to the query mask, with all of the memory visible.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, M + T)`, or
            `(B, H, T, M + T)`.
        use_causal_mask: Whether to mask the keys after each query.
        memory: `(B, M, D)`, inputs of the layer that precede these ones, as additional keys and
            values; it gets no gradient.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        training: Whether to apply dropout.

    Returns:
        `(B, T, D)`; with `return_attention_scores` then the weights, `(B, H, T, M + T)`.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, a mask is float, or value or
            key is not the query.

    Reference:
        Dai et al., Transformer-XL, 2019, section 3.3; Shaw et al.,
        Self-Attention with Relative Position Representations, 2018, eq. 3-4.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import RelativeAttention
        >>> layer = RelativeAttention(1, 2, style="shaw", max_distance=1, kernel_initializer="ones")
        >>> output = layer(np.zeros((1, 3, 4)))  # weights 1/3; only the b contribute
        >>> print(ops.convert_to_numpy(output)[0, :, 0].round(3))
        [2. 2. 2.]
    """

    AXES = {"query": "BTD", "memory": "BMD"}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        style: str = "xl",
        max_distance: int = 16,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if style not in STYLES:
            raise ValueError(
                f"RelativeAttention: style must be one of {', '.join(STYLES)}. "
                f"Received: style={style!r}"
            )
        require_sizes(max_distance=max_distance)
        if style != "shaw":
            reject_unused('style="shaw"', max_distance=(max_distance, 16))
        require_rates(dropout=dropout)
        self.heads = Heads(
            num_heads,
            key_dim,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            seed=seed,
        )
        self.style = style
        self.max_distance = max_distance
        self.dropout = dropout
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        self.heads.build(self, query_shape)
        heads, depth, width = self.heads.num_heads, self.heads.key_dim, query_shape[-1]
        seeds = split_seed(self.heads.seed, 2, stream=1)
        if self.style == "xl":
            shapes = {"position_kernel": (width, heads * depth)}
            self.content_bias, self.position_bias = (
                self.add_weight(
                    name=name,
                    shape=(heads, depth),
                    initializer=seeded_initializer(self.heads.bias_initializer, seed),
                )
                for name, seed in zip(
                    ("content_bias", "position_bias"),
                    split_seed(self.heads.seed, 2, stream=3),
                    strict=True,
                )
            )
        else:
            rows = 2 * self.max_distance + 1
            shapes = {"key_table": (rows, depth), "value_table": (rows, depth)}
        self.tables = [
            self.add_weight(
                name=name,
                shape=shape,
                initializer=seeded_initializer(self.heads.kernel_initializer, seed),
            )
            for (name, shape), seed in zip(shapes.items(), seeds, strict=False)
        ]
        self.seed_generator = dropout_generator(
            self.dropout, split_seed(self.heads.seed, 5)[-1], "dropout"
        )
        self.built = True

    def __call__(
        self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None, **kwargs: Any
    ) -> Any:
        # Keras would convert them to different tensor objects.
        value, key = (None if x is query else x for x in (value, key))
        return super().__call__(query, value, key, **kwargs)

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        memory: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        query_mask = self_attention_mask(self, query, value, key, query_mask, mask)
        heads = self.heads.project_with_memory(query, memory)
        length, keys = ops.shape(query)[1], ops.shape(heads["key"])[2]
        if isinstance(length, int) and not length:  # there are no pairs
            weights = ops.swapaxes(ops.zeros_like(heads["key"][..., :0]), -1, -2)
            return (query, weights) if return_attention_scores else query
        mask = self._mask(
            query_mask, value_mask, attention_mask, use_causal_mask, length, keys, memory
        )
        weights = masked_softmax(self._logits(heads, length, keys, query.shape[-1]), mask)
        dropped = drop(weights, self.dropout, self.seed_generator, training)
        output = weighted_average(dropped, heads["value"])
        if self.style == "shaw":
            table = self._gather_distances(self.tables[1], length, keys)
            by_distance = relative_shift_transpose(ops.cast(dropped, output.dtype))
            output = output + linear(by_distance, table)
        output = self.heads.output(output)
        return (output, ops.cast(weights, query.dtype)) if return_attention_scores else output

    def _mask(self, query_mask, value_mask, attention_mask, causal, length, keys, memory):
        mask = head_mask(as_mask(attention_mask, "attention_mask"))
        if value_mask is None and query_mask is not None:
            value_mask = as_mask(query_mask, "query_mask")
            if memory is not None:
                seen = ops.ones((ops.shape(value_mask)[0], keys - length), "bool")
                value_mask = ops.concatenate([seen, value_mask], axis=1)
        if value_mask is not None:
            mask = combine_masks(mask, as_mask(value_mask, "value_mask")[:, None, None, :])
        if query_mask is not None:
            mask = combine_masks(mask, as_mask(query_mask, "query_mask")[:, None, :, None])
        return combine_masks(mask, causal_mask(length, keys, align="end") if causal else None)

    def _logits(self, heads, length, keys, width):
        query, key = heads["query"], ops.swapaxes(heads["key"], -1, -2)
        if self.style == "shaw":
            tables = self._gather_distances(self.tables[0], length, keys)
            content, places = query, query
        else:
            content, places = (
                query + ops.cast(bias, query.dtype)[:, None]
                for bias in (self.content_bias, self.position_bias)
            )
            vectors = sinusoidal_positions(relative_distances(length, keys), width, layout="concat")
            tables = ops.matmul(
                ops.cast(vectors, query.dtype), ops.cast(self.tables[0], query.dtype)
            )
            if self.heads.num_heads > 1:
                tables = ops.reshape(tables, (-1, self.heads.num_heads, self.heads.key_dim))
                tables = ops.transpose(tables, (1, 0, 2))
        # (T + S - 1, K), shared by all heads, or (H, T + S - 1, K)
        product = linear if len(tables.shape) == 2 else ops.matmul
        scale = ops.cast(self.heads.key_dim**-0.5, query.dtype)
        by_key = ops.matmul(*upcast_float16(content * scale, key))
        by_position = relative_shift(
            product(*upcast_float16(places * scale, ops.swapaxes(tables, -1, -2)))
        )
        return ops.cast(by_key, "float32") + ops.cast(by_position, "float32")

    def _gather_distances(self, table, length, keys):
        """The table row of each distance, `(T + S - 1, K)`."""
        nearest = ops.clip(relative_distances(length, keys), -self.max_distance, self.max_distance)
        return ops.cast(ops.take(table, nearest + self.max_distance, axis=0), self.compute_dtype)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> Shape:
        return query_shape

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        config = self.heads.self_attention_config()
        return {
            **super().get_config(),
            **config,
            "style": self.style,
            "max_distance": self.max_distance,
            "dropout": self.dropout,
        }
