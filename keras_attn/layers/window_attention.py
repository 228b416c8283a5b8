"""Multi-head self-attention to a local window."""

import functools
from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.positions.rotary_embedding import RotaryEmbedding
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.windows import attend_in_window
from keras_attn.ops.arguments import require_each, require_rates, require_sizes
from keras_attn.ops.attention import scaled_dot_product_attention
from keras_attn.ops.masks import as_mask, combine_masks
from keras_attn.ops.windows import grid_window_mask, windowed_attention_2d
from keras_attn.types import Initializer, LayerLike, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class WindowAttention(CheckedLayer):
    """Multi-head self-attention in which each position attends to those at most `window` away.

    Equals `MultiHeadAttention` with the mask `|i - j| <= window`, in `O(T window)` time and memory.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        window: Number of positions visible on either side; for a 2D grid, a pair of integers for
            rows and columns. Other libraries count differently: Keras's `sliding_window` is one
            more, Longformer's `attention_window` in transformers is twice this number.
        causal: Whether to mask later positions; unsupported on a grid.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights and of dropout.
        position: None, or a `RotaryEmbedding`, which several layers may share; unsupported on a
            grid.
        output_initializer: Initializer of the output kernel; defaults to `kernel_initializer`.
        qk_norm: Whether queries and keys are normalized: see `MultiHeadAttention`.

    Call arguments:
        query: `(B, T, D)`; on a grid `(B, Y, X, D)`.
        value: The query itself, or None.
        key: The query itself, or None.
        query_mask: Boolean or integer `(B, T)` or `(B, Y, X)`; defaults to the Keras mask.
        value_mask: Likewise; without a cache it defaults to `query_mask`.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, T)`; memory becomes
            `O(T^2)`. Unsupported on a grid.
        use_causal_mask: Same as `causal`.
        return_attention_scores: Whether to also return the attention weights; memory becomes
            `O(T^2)`.
        cache: As in `MultiHeadAttention`; unsupported on a grid.
        cache_index: As in `MultiHeadAttention`.
        training: Whether to apply dropout.
        position_ids: As in `MultiHeadAttention`.
        pack_ids: Integers `(B, T)`, the number of the example of each position, if several examples
            share a row; they do not attend to each other. Unsupported on a grid and with a cache.

    Returns:
        Output with the shape of the query; then, if requested, the weights `(B, H, T, T)` (on a
        grid T is Y X); then the updated cache if one was given.

    Raises:
        ValueError: If an argument is out of range, a mask is float, or value or key is not the
            query.

    Reference:
        Child et al., Generating Long Sequences with Sparse Transformers, 2019;
        Beltagy et al., Longformer, 2020, section 3.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import WindowAttention
        >>> layer = WindowAttention(1, 1, window=1, kernel_initializer="ones")
        >>> x = np.array([[[1.0], [1.0], [1.0], [9.0]]])
        >>> print(ops.convert_to_numpy(layer(x))[0, :, 0].round(3))
        [1.    1.    8.995 9.   ]
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int | tuple[int, int],
        causal: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        position: LayerLike | None = None,
        output_initializer: Initializer | None = None,
        qk_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        pair = window if isinstance(window, (tuple, list)) else None
        expected = "a non-negative integer, or a pair of them"
        if pair is not None and len(pair) != 2:
            raise ValueError(
                f"WindowAttention: window must be {expected}. Received: window={window}"
            )
        require_each(functools.partial(require_sizes, low=0), expected, window=window)
        if pair is not None and causal:
            raise ValueError(
                "WindowAttention: causal is not supported on a grid. "
                f"Received: window={window}, causal=True"
            )
        require_rates(dropout=dropout)
        self.position = as_layer(position)
        if position is not None and (
            pair is not None or not isinstance(self.position, RotaryEmbedding)
        ):
            raise ValueError(
                "WindowAttention: position must be a RotaryEmbedding, and None on a grid. "
                f"Received: position={position!r}, window={window}"
            )
        self.heads = Heads(
            num_heads,
            key_dim,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            seed=seed,
            output_initializer=output_initializer,
            qk_norm=qk_norm,
        )
        self.window = window if pair is None else tuple(pair)
        self.causal = causal
        self.dropout = dropout
        self.supports_masking = True

    @property
    def AXES(self) -> dict[str, str]:  # type: ignore[override]
        return {"query": "BYXD" if isinstance(self.window, tuple) else "BTD"}

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        self.require_axes(query=query_shape)
        if isinstance(self.window, tuple):
            query_shape = query_shape[0], None, query_shape[-1]
        self.heads.build(self, query_shape)
        if self.position is not None and not self.position.built:
            self.position.build((None, self.heads.num_heads, None, self.heads.key_dim))
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
        return_attention_scores: bool = False,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: Tensor | int | None = None,
        training: bool | None = None,
        position_ids: Tensor | None = None,
        pack_ids: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        query_mask = self_attention_mask(self, query, value, key, query_mask, mask)
        dropout = self.dropout if training else 0.0
        if isinstance(self.window, tuple):
            value_mask = query_mask if value_mask is None else value_mask
            unsupported = attention_mask, cache, position_ids, pack_ids
            if use_causal_mask or any(x is not None for x in unsupported):
                raise ValueError(
                    "WindowAttention: attention_mask, use_causal_mask, cache, position_ids and "
                    "pack_ids are not supported on a grid. Received: one of them"
                )
            return self._on_grid(query, query_mask, value_mask, return_attention_scores, dropout)
        causal = self.causal or use_causal_mask
        window = {"left": self.window, "right": 0 if causal else self.window, "causal": causal}
        output, *others = attend_in_window(
            self.heads,
            query,
            window,
            query_mask,
            value_mask,
            attention_mask,
            return_attention_scores,
            cache,
            cache_index,
            dropout,
            self.seed_generator,
            position=self.position,
            position_ids=position_ids,
            pack_ids=pack_ids,
        )
        return (output, *others) if others else output

    def _on_grid(self, x, query_mask, value_mask, return_scores, dropout):
        batch, rows, columns, depth = ops.shape(x)
        heads = self.heads.project(
            **dict.fromkeys(
                ("query", "key", "value"), ops.reshape(x, (batch, rows * columns, depth))
            )
        )
        heads = [heads[name] for name in ("query", "key", "value")]
        weights = []
        if return_scores:
            places = rows * columns
            mask = grid_window_mask(rows, columns, self.window)
            if value_mask is not None:
                real = ops.reshape(as_mask(value_mask, "value_mask"), (batch, 1, 1, places))
                mask = combine_masks(mask, real)
            if query_mask is not None:
                query_mask = ops.reshape(as_mask(query_mask, "query_mask"), (batch, 1, places))
            found, *weights = scaled_dot_product_attention(
                *heads,
                mask=mask,
                dropout=dropout,
                seed=self.seed_generator,
                query_mask=query_mask,
                return_scores=True,
            )
        else:
            shape = (batch, self.heads.num_heads, rows, columns, self.heads.key_dim)
            found = windowed_attention_2d(
                *(ops.reshape(h, shape) for h in heads),
                self.window,
                value_mask,
                dropout,
                self.seed_generator,
            )
            if query_mask is not None:
                query_mask = as_mask(query_mask, "query_mask")[:, None, :, :, None]
                found = ops.where(query_mask, found, ops.zeros((), found.dtype))
            found = ops.reshape(found, (batch, shape[1], rows * columns, shape[-1]))
        output = ops.reshape(self.heads.output(found), (batch, rows, columns, depth))
        return (output, *weights) if weights else output

    def make_cache(
        self, batch_size: int, length: int, dtype: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Creates an empty cache for decoding `length` positions: see `MultiHeadAttention`."""
        return self.heads.make_cache(batch_size, length, dtype or self.compute_dtype)

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
            "window": self.window,
            "causal": self.causal,
            "dropout": self.dropout,
            "position": layer_config(self.position, self),
            "qk_norm": self.heads.qk_norm,
            "output_initializer": keras.initializers.serialize(self.heads.output_initializer),
        }


def self_attention_mask(layer, query, value, key, query_mask, mask):
    """The query mask, given or implicit.

    Keras passes its implicit mask as `mask` if the query is the only tensor of the call, else as
    `query_mask`.

    Raises:
        ValueError: If value or key is not the query.
    """
    for name, other in (("value", value), ("key", key)):
        if other is not None and other is not query:
            raise ValueError(
                f"{type(layer).__name__} only supports self-attention: {name} must be the query "
                f"or None. Received: {name} of shape {tuple(other.shape)}, another tensor"
            )
    return mask if query_mask is None else query_mask
