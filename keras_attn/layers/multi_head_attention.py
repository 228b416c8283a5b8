"""Multi-head attention."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention_axes import AttentionAxes
from keras_attn.layers.cache import check_cache, ignore_implicit_value_mask, write_cache
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads, head_mask
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.positions.rotary_embedding import RotaryEmbedding, rotate
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.shapes import require_sequences
from keras_attn.ops import as_mask, causal_mask, combine_masks, scaled_dot_product_attention
from keras_attn.ops.arguments import require_each, require_integers, require_rates
from keras_attn.ops.attention import short_self_attention, supports_short_kernel
from keras_attn.ops.masks import causal_offset
from keras_attn.ops.products import linear
from keras_attn.types import Constraint, Initializer, LayerLike, Regularizer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadAttention(CheckedLayer):
    """Multi-head attention with a separate projection per head.

    `head_h = softmax(Q W_h^Q (K W_h^K)^T / sqrt(key_dim)) V W_h^V`, and the output is
    `concat(heads) W^O`.

    The heads of a query without any visible key are 0, so its output is the output bias.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries and keys in a head.
        value_dim: Depth of values in a head; defaults to `key_dim`.
        output_dim: Depth of the output; defaults to the query's.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        fused: Which projections share a kernel. `"qkv"`: all three, so self-attention needs a
            single matrix product; all inputs must have the same depth. `"kv"`: key and value. None:
            none. This affects the shapes of the weights, not the result.
        causal_align: Alignment of the causal mask: with `"end"` query i sees keys up to
            `i + S - T`, with `"start"` keys up to i.
        position: None, or a relative position layer: `RotaryEmbedding`, which rotates queries and
            keys, or a layer whose output is added to the logits, such as `AlibiBias` or
            `RelativePositionBias`. Several layers may share it. The last query has the position of
            the last key; with `causal_align="start"` the first query that of the first key.
        initial_shifts: None, or H integers: head h is initialized to attend that many positions
            ahead, if the inputs contain the position embeddings of
            `BertEncoder(initial_attention="neighbours")`.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        output_initializer: Initializer of the output kernel; defaults to `kernel_initializer`.
        seed: Integer seed of the initial weights and of dropout.
        attention_axes: Integer or tuple: the axes of inputs `(B, ..., D)` that attention covers;
            defaults to all axes between the batch and the features. Positions do not attend across
            the other axes. With several axes, the weights, `use_causal_mask` and `position` order
            positions by the axes as given.
        kernel_regularizer: Regularizer of all kernels.
        bias_regularizer: Regularizer of all biases.
        kernel_constraint: Constraint of all kernels. Kernels have shape `(D, columns)`, with the
            columns of all heads, and with `fused` of several projections, side by side; norms over
            axis 0 are the same as for separate kernels.
        bias_constraint: Constraint of all biases.
        qk_norm: Whether the queries and keys of each head are divided by their root mean square and
            multiplied by a learned scale per column, which the heads share. This bounds the logits.

    The projections are weights of this layer, not sublayers, so that they can share a matrix
    product. Therefore `enable_lora` and `quantize` are not supported and raise an error, and
    `keras.Model.quantize` leaves the projections unchanged.

    Call arguments:
        query: `(B, T, D)`, or `(B, ..., D)` with the attention axes.
        value: `(B, S, D)`; the query itself for self-attention; None with `memory`.
        key: `(B, S, D)`; defaults to `value`.
        query_mask: Boolean or integer `(B, T)`; masked queries attend to nothing.
        value_mask: Boolean or integer `(B, S)`; masked keys are not attended to.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`, or
            `(B, 1 or H, T, S)`; True where a query may attend to a key. With `attention_axes` it
            broadcasts to `(B, ..., H, T..., S...)`; missing axes are those after the batch.
        use_causal_mask: Whether to mask the keys after each query.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        cache: Keys and values of earlier positions, as created by `make_cache`, or None. The T new
            ones are written at `cache_index`; query i attends to positions up to `cache_index + i`.
            S is then the length of the cache in every mask.
        cache_index: Integer scalar, the position of the first query.
        memory: Keys and values from `project_memory`, in place of `value` and `key`. With a
            `position`, `cache_index` gives the position of the first query in step-by-step
            decoding.
        training: Whether to apply dropout.
        position_ids: Integers `(T,)` or `(B, T)`: the positions of self-attention by which a
            `RotaryEmbedding` rotates queries and keys; defaults to 0 to T - 1, or with a cache to
            the positions from `cache_index` on.

    Masks that Keras attaches to query and value (`Embedding(mask_zero=True)`) are used where
    `query_mask` and `value_mask` are None. With a cache, the implicit mask of the value is ignored,
    as it only covers the T new positions; pass `value_mask` to mask padding.

    Returns:
        Output `(B, T, output_dim)`; then, if requested, the weights `(B, H, T, S)`; then the
        updated cache if one was given. For inputs `(B, ..., D)` the output has the axes of the
        query, and the weights are `(B, ..., H, T..., S...)`.

    Raises:
        ValueError: If an argument is out of range, the depths of the inputs do not match `fused`, a
            mask is float, only one of `cache` and `cache_index` is given, `value_mask` and the
            cache differ in length, `position` is not a layer or has another number of heads, or the
            inputs lack the `attention_axes`.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.2.2. `qk_norm`: Henry et al.,
        Query-Key Normalization for Transformers, 2020; with the norm of Zhang & Sennrich, Root Mean
        Square Layer Normalization, 2019.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(1, 1, kernel_initializer="ones")
        >>> x = np.array([[[1.0], [2.0], [2.0]]])
        >>> _, weights = layer(x, x, use_causal_mask=True, return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0].round(3))
        [[1.    0.    0.   ]
         [0.119 0.881 0.   ]
         [0.063 0.468 0.468]]

        Eight heads on a sequence of 60 tokens:

        >>> layer, x = MultiHeadAttention(num_heads=8, key_dim=64), np.zeros((1, 60, 512))
        >>> output, weights = layer(x, x, return_attention_scores=True)
        >>> print(output.shape, weights.shape)
        (1, 60, 512) (1, 8, 60, 60)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        output_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        fused: str | None = "qkv",
        causal_align: str = "end",
        position: LayerLike | None = None,
        initial_shifts: Sequence[int] | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        output_initializer: Initializer | None = None,
        seed: int | None = None,
        attention_axes: int | tuple[int, ...] | None = None,
        kernel_regularizer: Regularizer | None = None,
        bias_regularizer: Regularizer | None = None,
        kernel_constraint: Constraint | None = None,
        bias_constraint: Constraint | None = None,
        qk_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_rates(dropout=dropout)
        if causal_align not in ("end", "start"):
            raise ValueError(
                "MultiHeadAttention: causal_align must be 'end' or 'start'. "
                f"Received: causal_align={causal_align!r}"
            )
        self.heads = Heads(
            num_heads,
            key_dim,
            value_dim,
            output_dim,
            use_bias,
            fused,
            kernel_initializer,
            bias_initializer,
            initial_shifts,
            seed,
            output_initializer=output_initializer,
            regularizers=(kernel_regularizer, bias_regularizer),
            constraints=(kernel_constraint, bias_constraint),
            qk_norm=qk_norm,
        )
        if attention_axes is not None:
            require_each(require_integers, "an integer or integers", attention_axes=attention_axes)
            if not isinstance(attention_axes, (list, tuple)):
                attention_axes = (attention_axes,)
        self.attention_axes = None if attention_axes is None else tuple(attention_axes)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = self.heads.value_dim
        self.output_dim = output_dim
        self.dropout = dropout
        self.causal_align = causal_align
        self.position = _check_position(as_layer(position), num_heads)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        axes = self._axes(query_shape, value_shape, key_shape)
        if axes is not None:
            query_shape, value_shape, key_shape = map(
                axes.fold_shape, (query_shape, value_shape, key_shape)
            )
        self.heads.build(self, query_shape, value_shape, key_shape)
        self.output_kernel, self.output_bias = self.heads.output_kernel, self.heads.output_bias
        if self.position is not None and not self.position.built:
            self.position.build((None, self.num_heads, None, self.key_dim))
        self.seed_generator = dropout_generator(
            self.dropout, split_seed(self.seed, 5)[-1], "dropout"
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
        memory: tuple[Tensor, Tensor] | None = None,
        training: bool | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        axes = self._axes(*(None if x is None else x.shape for x in (query, value, key)))
        options = {
            "use_causal_mask": use_causal_mask,
            "training": training,
            "return_attention_scores": return_attention_scores,
        }
        if axes is None:
            return self._attend(
                query,
                value,
                key,
                query_mask,
                value_mask,
                attention_mask,
                cache=cache,
                cache_index=cache_index,
                memory=memory,
                position_ids=position_ids,
                **options,
            )
        if any(x is not None for x in (cache, memory, position_ids)):
            raise ValueError(
                "MultiHeadAttention: cache, memory and position_ids require inputs (B, T, D) "
                "without other attention_axes. Received: query of shape "
                f"{tuple(query.shape)}, "
                f"attention_axes={self.attention_axes}"
            )
        rows = axes.fold(query)
        result = self._attend(
            rows,
            rows if value is query else axes.fold(value),
            rows if key is query else axes.fold(key),
            axes.fold(query_mask),
            axes.fold(value_mask),
            axes.fold_attention_mask(attention_mask, query, value),
            **options,
        )
        if not return_attention_scores:
            return axes.unfold(result, query)
        return axes.unfold(result[0], query), axes.unfold_weights(result[1], query, value)

    def _axes(self, *shapes):
        """`AttentionAxes` for inputs of these shapes, or None if the inputs are plain sequences."""
        ranks = {len(shape) for shape in shapes if shape is not None}
        if ranks == {3} and self.attention_axes in (None, (1,), (-2,)):
            require_sequences(self, *shapes)
            return None
        if len(ranks) > 1 or min(ranks) < 3:
            require_sequences(self, *shapes)
        axes = AttentionAxes("MultiHeadAttention", ranks.pop(), self.attention_axes)
        axes.require_equal_rows(**dict(zip(("query", "value", "key"), shapes, strict=True)))
        return axes

    def _attend(
        self,
        query,
        value,
        key,
        query_mask,
        value_mask,
        attention_mask,
        use_causal_mask,
        return_attention_scores,
        training,
        cache=None,
        cache_index=None,
        memory=None,
        position_ids=None,
    ):
        if memory is None:
            check_cache(cache, cache_index)
        elif cache is not None:
            raise ValueError(
                "MultiHeadAttention: memory and cache cannot be combined. Received: both"
            )
        key = value if key is None else key
        causal = self.causal_align if use_causal_mask else None
        dropout = self.dropout if training else 0.0
        mask = head_mask(as_mask(attention_mask, "attention_mask"))
        if value_mask is not None and value_mask is not True:
            value_mask = as_mask(value_mask, "value_mask")
            _check_length(value_mask, cache)
            mask = combine_masks(mask, value_mask[:, None, None, :])
        plain = all(x is None for x in (self.position, causal, cache, query_mask, memory))
        if plain and not return_attention_scores and query is key and query is value:
            shape = self.heads.packed_shape(query)
            if shape and supports_short_kernel(
                shape, self.compute_dtype, mask, dropout, self.seed_generator
            ):
                packed = ops.reshape(linear(query, self.heads.kernels[0]), shape)
                bias = self.heads.biases[0]
                bias = None if bias is None else ops.reshape(bias, shape[2:])
                heads = short_self_attention(packed, bias, mask, dropout, self.seed_generator)
                return self.heads.merge_and_project(heads, shape[:2])
        sources = {"query": query}
        if memory is None:
            sources |= {"key": key, "value": value}
        heads = self.heads.project(**sources)
        if memory is None:
            key = rotate(self.position, heads["key"], cache_index, position_ids)
            value = heads["value"]
        else:
            key, value = memory
        start = cache_index
        if start is None:
            start = causal_offset(ops.shape(query)[1], ops.shape(key)[2], self.causal_align)
        query = rotate(self.position, heads["query"], start, position_ids)
        if cache is not None:
            causal = None
            (key, value), cache = write_cache(cache, cache_index, (key, value), axis=2)
            visible = causal_mask(
                ops.shape(query)[2], ops.shape(key)[2], align="start", offset=cache_index
            )
            mask = combine_masks(mask, visible)
        if query_mask is not None:
            query_mask = as_mask(query_mask, "query_mask")[:, None, :]
        attended = scaled_dot_product_attention(
            query,
            key,
            value,
            mask=mask,
            bias=self._bias(query, key, start),
            causal=causal,
            dropout=dropout,
            seed=self.seed_generator,
            query_mask=query_mask,
            return_scores=return_attention_scores,
        )
        heads, *results = attended if return_attention_scores else (attended,)
        if cache is not None:
            results.append(cache)
        output = self.heads.output(heads)
        return (output, *results) if results else output

    def enable_lora(self, rank: int, *args: Any, **kwargs: Any) -> None:
        """Not supported: see the class docstring."""
        raise NotImplementedError(
            "MultiHeadAttention does not support LoRA: its projections are weights of one layer. "
            "Use keras.layers.MultiHeadAttention, whose projections are layers with enable_lora. "
            f"Received: rank={rank}"
        )

    def quantize(self, mode: str | None = None, *args: Any, **kwargs: Any) -> None:
        """Not supported: see the class docstring."""
        raise NotImplementedError(
            "MultiHeadAttention does not support quantization: its projections stay in the dtype "
            "policy of the layer. Use keras.layers.MultiHeadAttention, whose projections are "
            f"layers with quantize. Received: mode={mode!r}"
        )

    def make_cache(
        self, batch_size: int, length: int, dtype: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Creates an empty cache for decoding up to `length` positions.

        Returns:
            (keys, values): zeros `(B, H, length, key_dim)` and `(B, H, length, value_dim)`.
        """
        return self.heads.make_cache(batch_size, length, dtype or self.compute_dtype)

    def project_memory(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projects keys and values of all heads once, for repeated calls with `memory`.

        Args:
            value: As in a call.
            key: As in a call.

        Returns:
            (keys, values): `(B, H, S, key_dim)` and `(B, H, S, value_dim)`, the `memory` of a call.
        """
        heads = self.heads.project(key=value if key is None else key, value=value)
        heads["key"] = rotate(self.position, heads["key"])
        # Keras only casts weights inside a call.
        return tuple(ops.cast(heads[name], self.compute_dtype) for name in ("key", "value"))

    def _bias(self, query, key, start):
        if self.position is None or isinstance(self.position, RotaryEmbedding):
            return None
        return self.position(query, key, offset=start)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.heads.get_config(),
            "dropout": self.dropout,
            "causal_align": self.causal_align,
            "position": layer_config(self.position, self),
            "initial_shifts": self.heads.initial_shifts,
            "qk_norm": self.heads.qk_norm,
            "attention_axes": self.attention_axes,
            **self.heads.regularization_config(),
            "output_initializer": keras.initializers.serialize(self.heads.output_initializer),
        }


def _check_position(position, num_heads):
    if position is not None and not isinstance(position, keras.layers.Layer):
        raise ValueError(
            f"MultiHeadAttention: position must be a layer or None. Received: position={position!r}"
        )
    heads = getattr(position, "num_heads", num_heads)
    if heads != num_heads:
        raise ValueError(
            "MultiHeadAttention: position must have the same num_heads. "
            f"Received: num_heads={num_heads}, position.num_heads={heads}"
        )
    return position


def _check_length(value_mask, cache):
    length = None if cache is None else cache[0].shape[2]
    if None not in (length, value_mask.shape[1]) and value_mask.shape[1] != length:
        raise ValueError(
            "MultiHeadAttention: value_mask must have the length of the cache. "
            f"Received: value_mask.shape={tuple(value_mask.shape)}, a cache of length {length}"
        )
