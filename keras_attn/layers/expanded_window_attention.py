"""Multi-head self-attention to a window that reaches out."""

from typing import Any

import keras

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.window_attention import self_attention_mask
from keras_attn.layers.windows import attend_in_window
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.windows import check_window
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ExpandedWindowAttention(CheckedLayer):
    """Self-attention of several heads to a window with ways out of it.

    Position i sees j if `i - extension <= j <= i + extension + window - 1`, the reach of windows
    of `window` positions that begin at each of `i - extension` to `i + extension`; distances
    count in steps of `dilation`. Besides, the first `global_tokens` positions see all and are
    seen by all, and each block of positions sees `random_blocks` more. In time and memory
    `O(T w)`, w the positions that one sees: `window + 2 extension + global_tokens`, and those of
    the blocks.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        window: Positions of a window, the one it begins at included.
        extension: How far windows begin on either side. With `window=1` it is
            `WindowAttention(window=extension)`.
        dilation: Distance of neighbouring keys.
        global_tokens: Positions at the beginning, such as `[CLS]`.
        random_blocks: Blocks more that are drawn for each block of 32
            positions, or of as many as the window reaches if these are more; all heads have the
            same, given by `seed`. Which they are depends on the number of blocks, padding
            included. Without dilation, and with neither a causal mask nor a cache.
        separate_global_projections: Whether global tokens have queries, keys
            and values of their own to look at all, as in Longformer.
        dropout: Share of attention weights dropped in training.
        use_bias: Whether the projections have biases.
        kernel_initializer, bias_initializer: Initializers.
        seed: Integer for initial weights, blocks and dropout; None gives the
            blocks of 0, for what is in no weight must be the same after loading.

    Call arguments:
        Those of `WindowAttention`, for `(B, T, D)`. `use_causal_mask` leaves the part of the
        window that is not after a position.

    Returns:
        As `WindowAttention`.

    Raises:
        ValueError: If an argument is out of range, arguments exclude each
            other, a mask is float, or value or key is another tensor.

    Reference:
        Beltagy et al., Longformer, 2020, section 3.1 (dilation, global tokens);
        Zaheer et al., Big Bird, 2020, section 2 (random blocks).

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import ExpandedWindowAttention
        >>> layer = ExpandedWindowAttention(1, 1, window=2, extension=1)
        >>> _, weights = layer(np.zeros((1, 5, 1)), return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0, 1:3].round(2))  # from one before to two after
        [[0.25 0.25 0.25 0.25 0.  ]
         [0.   0.25 0.25 0.25 0.25]]
    """

    AXES = {"query": "BTD"}

    def __init__(self, num_heads: int, key_dim: int, window: int, extension: int = 0,
                 dilation: int = 1, global_tokens: int = 0, random_blocks: int = 0,
                 separate_global_projections: bool = False, dropout: float = 0.0,
                 use_bias: bool = True, kernel_initializer: Initializer = "glorot_uniform",
                 bias_initializer: Initializer = "zeros", seed: int | None = None, **kwargs: Any
                 ) -> None:
        super().__init__(**kwargs)
        require_sizes(window=window, dilation=dilation)
        require_sizes(low=0, extension=extension, global_tokens=global_tokens,
                      random_blocks=random_blocks)
        if separate_global_projections and not global_tokens:
            raise ValueError("separate_global_projections needs global_tokens. "
                             f"Received: global_tokens={global_tokens}")
        require_rates(dropout=dropout)
        check_window(extension, extension + window - 1, dilation, random_blocks, False)
        options = {"use_bias": use_bias, "kernel_initializer": kernel_initializer,
                   "bias_initializer": bias_initializer}
        self.heads = Heads(num_heads, key_dim, seed=seed, **options)
        self.global_heads = None
        if separate_global_projections:
            global_seed, = split_seed(seed, 1, stream=1)
            self.global_heads = Heads(num_heads, key_dim, seed=global_seed, prefix="global_",
                                      **options)
        self.window = window
        self.extension = extension
        self.dilation = dilation
        self.global_tokens = global_tokens
        self.random_blocks = random_blocks
        self.dropout = dropout
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape | None = None,
              key_shape: Shape | None = None) -> None:
        self.heads.build(self, query_shape)
        if self.global_heads is not None:
            self.global_heads.build(self, query_shape, with_output=False)
        self.seed_generator = dropout_generator(
            self.dropout, split_seed(self.heads.seed, 5)[-1], "dropout")
        self.built = True

    def __call__(self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None,
                 **kwargs: Any) -> Any:
        # Keras would make other tensors of them.
        value, key = (None if x is query else x for x in (value, key))
        return super().__call__(query, value, key, **kwargs)

    def call(self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None,
             query_mask: Tensor | None = None, value_mask: Tensor | None = None,
             attention_mask: Tensor | None = None, use_causal_mask: bool = False,
             return_attention_scores: bool = False, cache: tuple[Tensor, Tensor] | None = None,
             cache_index: Tensor | int | None = None, training: bool | None = None,
             mask: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
        query_mask = self_attention_mask(self, query, value, key, query_mask, mask)
        if cache is not None and self.random_blocks:
            raise ValueError("A cache does not go with random_blocks. "
                             f"Received: cache, random_blocks={self.random_blocks}")
        window = {
            "left": self.extension, "dilation": self.dilation, "global_tokens": self.global_tokens,
            "right": 0 if use_causal_mask else self.extension + self.window - 1,
            "random_blocks": self.random_blocks, "seed": self.heads.seed or 0,
            "causal": use_causal_mask}
        global_heads = None
        if self.global_heads is not None:
            if cache is not None:
                raise ValueError("A cache has no keys for separate_global_projections. "
                                 "Received: cache, separate_global_projections=True")
            found = self.global_heads.project(query=query, key=query, value=query)
            global_heads = [found[name] for name in ("query", "key", "value")]
        output, *others = attend_in_window(
            self.heads, query, window, query_mask, value_mask, attention_mask,
            return_attention_scores, cache, cache_index,
            self.dropout if training else 0.0, self.seed_generator, global_heads)
        return (output, *others) if others else output

    def make_cache(self, batch_size: int, length: int, dtype: str | None = None
                   ) -> tuple[Tensor, Tensor]:
        """Empty cache for decoding up to `length` positions: see `MultiHeadAttention`."""
        return self.heads.make_cache(batch_size, length, dtype or self.compute_dtype)

    def compute_output_shape(self, query_shape: Shape, value_shape: Shape | None = None,
                             key_shape: Shape | None = None) -> Shape:
        return query_shape

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        config = self.heads.self_attention_config()
        return {**super().get_config(), **config, "window": self.window,
                "extension": self.extension, "dilation": self.dilation,
                "global_tokens": self.global_tokens, "random_blocks": self.random_blocks,
                "separate_global_projections": self.global_heads is not None,
                "dropout": self.dropout}
