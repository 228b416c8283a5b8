"""Multi-head self-attention to an extended window, with global tokens and random blocks."""

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
    """Multi-head self-attention to an extended or dilated window, with global and random keys.

    Position i attends to j if `i - extension <= j <= i + extension + window - 1`: the union of the
    windows of `window` positions that start at `i - extension` to `i + extension`. Distances count
    in steps of `dilation`. In addition, the first `global_tokens` positions attend to all positions
    and all attend to them, and each block of positions attends to `random_blocks` further blocks.
    Time and memory are `O(T w)`, where w is the number of keys per query:
    `window + 2 extension + global_tokens`, plus those of the random blocks.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        window: Number of positions in a window, including the one it starts at.
        extension: Number of positions by which window starts extend to either side. With `window=1`
            the layer equals `WindowAttention(window=extension)`.
        dilation: Distance between neighbouring keys.
        global_tokens: Number of global tokens at the start, such as `[CLS]`.
        random_blocks: Number of random blocks for each block of queries. A block has 32 positions,
            or as many as the window reaches if that is more. All heads share the blocks, which
            depend on `seed` and on the number of blocks, including padding. Unsupported with
            dilation, a causal mask or a cache.
        separate_global_projections: Whether global tokens use separate query, key and value
            projections to attend to all positions, as in Longformer.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights, random blocks and dropout. With None the blocks
            are the ones of seed 0: they are not stored in a weight, but must be the same after
            loading.

    Call arguments:
        query: `(B, T, D)`.
        use_causal_mask: Whether to mask the part of the window after each position.

    The other call arguments match `WindowAttention`.

    Returns:
        See `WindowAttention`.

    Raises:
        ValueError: If an argument is out of range, arguments are incompatible, a mask is float, or
            value or key is not the query.

    Reference:
        Beltagy et al., Longformer, 2020, section 3.1 (dilation, global tokens);
        Zaheer et al., Big Bird, 2020, section 2 (random blocks).

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import ExpandedWindowAttention
        >>> layer = ExpandedWindowAttention(1, 1, window=2, extension=1)
        >>> _, weights = layer(np.zeros((1, 5, 1)), return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0, 1:3].round(2))  # one before to two after
        [[0.25 0.25 0.25 0.25 0.  ]
         [0.   0.25 0.25 0.25 0.25]]
    """

    AXES = {"query": "BTD"}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int,
        extension: int = 0,
        dilation: int = 1,
        global_tokens: int = 0,
        random_blocks: int = 0,
        separate_global_projections: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(window=window, dilation=dilation)
        require_sizes(
            low=0, extension=extension, global_tokens=global_tokens, random_blocks=random_blocks
        )
        if separate_global_projections and not global_tokens:
            raise ValueError(
                "ExpandedWindowAttention: separate_global_projections=True requires "
                f"global_tokens of at least 1. Received: global_tokens={global_tokens}"
            )
        require_rates(dropout=dropout)
        check_window(extension, extension + window - 1, dilation, random_blocks, False)
        options = {
            "use_bias": use_bias,
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer,
        }
        self.heads = Heads(num_heads, key_dim, seed=seed, **options)
        self.global_heads = None
        if separate_global_projections:
            (global_seed,) = split_seed(seed, 1, stream=1)
            self.global_heads = Heads(
                num_heads, key_dim, seed=global_seed, prefix="global_", **options
            )
        self.window = window
        self.extension = extension
        self.dilation = dilation
        self.global_tokens = global_tokens
        self.random_blocks = random_blocks
        self.dropout = dropout
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        self.heads.build(self, query_shape)
        if self.global_heads is not None:
            self.global_heads.build(self, query_shape, with_output=False)
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
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        query_mask = self_attention_mask(self, query, value, key, query_mask, mask)
        if cache is not None and self.random_blocks:
            raise ValueError(
                "ExpandedWindowAttention: a cache is not supported with "
                f"random_blocks. Received: random_blocks={self.random_blocks}"
            )
        window = {
            "left": self.extension,
            "dilation": self.dilation,
            "global_tokens": self.global_tokens,
            "right": 0 if use_causal_mask else self.extension + self.window - 1,
            "random_blocks": self.random_blocks,
            "seed": self.heads.seed or 0,
            "causal": use_causal_mask,
        }
        global_heads = None
        if self.global_heads is not None:
            if cache is not None:
                raise ValueError(
                    "ExpandedWindowAttention: a cache is not supported with "
                    "separate_global_projections=True."
                )
            found = self.global_heads.project(query=query, key=query, value=query)
            global_heads = [found[name] for name in ("query", "key", "value")]
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
            self.dropout if training else 0.0,
            self.seed_generator,
            global_heads,
        )
        return (output, *others) if others else output

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
            "extension": self.extension,
            "dilation": self.dilation,
            "global_tokens": self.global_tokens,
            "random_blocks": self.random_blocks,
            "separate_global_projections": self.global_heads is not None,
            "dropout": self.dropout,
        }
