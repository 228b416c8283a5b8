"""Multi-head attention to an extended window, with global tokens and random blocks."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.alignment import Alignment, unmasked_positions
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads
from keras_attn.layers.memory_windows import (
    build_heads,
    check_call,
    distances,
    joint_head_mask,
    project_inputs,
    project_memory,
    scaled_logits,
    self_attention_arguments,
)
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.layers.windows import attend_in_window
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import combine_masks
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.ops.windows import check_window
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ExpandedWindowAttention(CheckedLayer):
    """Multi-head attention to an extended or dilated window, with global and random keys.

    Position i attends to j if `i - extension <= j <= i + extension + window - 1`: the union of the
    windows of `window` positions that start at `i - extension` to `i + extension`. Distances count
    in steps of `dilation`. In addition, the first `global_tokens` positions attend to all positions
    and all attend to them, and each block of positions attends to `random_blocks` further blocks.
    Time and memory are `O(T w)`, where w is the number of keys per query:
    `window + 2 extension + global_tokens`, plus those of the random blocks.

    In attention to a memory, such as the states of an encoder, i is the position t of the query, at
    most that of the last key, or the integer part of a predicted position, as in `LocalAttention`:
    `p_t = S sigmoid(v^T tanh(W q_t))`. All queries also attend to the first `global_tokens` keys.
    With predicted positions, the weights in the window are multiplied by
    `exp(-(s - p_t)^2 / (2 sigma^2))` without renormalization. The logits of all keys are computed:
    memory is `O(T S)`.

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
            dilation, a causal mask, a cache, a memory or predictive alignment.
        separate_global_projections: Whether global tokens use separate query, key and value
            projections to attend to all positions, as in Longformer. Unsupported with a cache, a
            memory or predictive alignment.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights, random blocks and dropout. With None the blocks
            are the ones of seed 0: they are not stored in a weight, but must be the same after
            loading.
        alignment: `"monotonic"` or `"predictive"`: whether windows are placed at the positions of
            the queries or at predicted ones.
        sigma: Standard deviation of the Gaussian of predictive alignment; defaults to a quarter of
            the distance between the first and the last position of the window.

    Call arguments:
        query: `(B, T, D)`.
        value: `(B, S, V)`; None or the query itself for self-attention.
        key: `(B, S, K)`; defaults to `value`.
        value_mask: Boolean or integer `(B, S)`; in self-attention without a cache it defaults to
            `query_mask`.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`; memory becomes
            `O(T S)`.
        use_causal_mask: Whether to mask the part of the window after each position; otherwise as in
            `MultiHeadAttention`.
        return_attention_scores: Whether to also return the attention weights; memory becomes
            `O(T S)`.
        query_positions: Integers `(B, T)` or `(T,)`, the t of monotonic alignment when decoding;
            defaults to the positions among the unmasked queries. With them, with predictive
            alignment and with a memory, positions are counted among the unmasked keys.
        cache: As in `MultiHeadAttention`, for self-attention with monotonic alignment.
        memory: Keys and values from `project_memory`, in place of `value` and `key`.

    The other call arguments match `MultiHeadAttention`.

    Returns:
        `(B, T, D)`; then, if requested, the weights `(B, H, T, S)`; then the updated cache if one
        was given.

    Raises:
        ValueError: If an argument is out of range, a mask is float, or arguments are incompatible,
            such as a cache and a value.

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

    AXES = SEQUENCES

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
        alignment: str = "monotonic",
        sigma: float | None = None,
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
        self.random_blocks = random_blocks
        self.global_heads = None
        if separate_global_projections:
            (global_seed,) = split_seed(seed, 1, stream=1)
            self.global_heads = Heads(
                num_heads, key_dim, seed=global_seed, prefix="global_", **options
            )
        self._alignment = Alignment(
            "ExpandedWindowAttention",
            alignment,
            sigma,
            dilation * (window - 1 + 2 * extension) / 4,
            kernel_initializer,
            split_seed(seed, 2, stream=3),
            window=window,
            extension=extension,
        )
        if alignment == "predictive":
            self._require_plain_windows('alignment="predictive"')
        self.alignment = alignment
        self.sigma = sigma
        self.window = window
        self.extension = extension
        self.dilation = dilation
        self.global_tokens = global_tokens
        self.dropout = dropout
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        build_heads(self.heads, self, query_shape, value_shape, key_shape)
        if self.global_heads is not None:
            self.global_heads.build(self, query_shape, with_output=False)
        self._alignment.build(self, query_shape[-1])
        self.seed_generator = dropout_generator(
            self.dropout, split_seed(self.heads.seed, 5)[-1], "dropout"
        )
        self.built = True

    def __call__(
        self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None, **kwargs: Any
    ) -> Any:
        value, key = self_attention_arguments(query, value, key)
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
        query_positions: Tensor | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        check_call(self, value, key, memory, cache, cache_index, query_positions)
        query_mask = mask if query_mask is None else query_mask
        dropout = self.dropout if training else 0.0
        own = value is None and memory is None
        if not own or self.alignment == "predictive" or query_positions is not None:
            self._require_plain_windows("a memory" if not own else "query_positions")
            if own and value_mask is None:
                value_mask = query_mask
            heads = project_inputs(self.heads, query, value, key, memory)
            length = ops.shape(query)[1], ops.shape(heads[1])[2]
            mask = joint_head_mask(length, query_mask, value_mask, attention_mask, use_causal_mask)
            near, gaussian = self._window(
                query, length[1], query_mask, value_mask, query_positions, own
            )
            weights = masked_softmax(scaled_logits(*heads[:2]), combine_masks(mask, near))
            weights = weights if gaussian is None else weights * gaussian
            found = weighted_average(weights, heads[2], dropout, self.seed_generator)
            output = self.heads.output(found)
            return (output, ops.cast(weights, query.dtype)) if return_attention_scores else output
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
            dropout,
            self.seed_generator,
            global_heads,
        )
        return (output, *others) if others else output

    def _window(self, query, length, query_mask, value_mask, query_positions, own):
        """Visible keys, and the Gaussian or None, at given or predicted positions."""
        steps, gaussian, places = distances(
            self._alignment, query, length, query_mask, value_mask, query_positions
        )
        after = self.dilation * (self.extension + self.window - 1)
        near = ops.logical_and(steps >= -self.dilation * self.extension, steps <= after)
        if self.dilation > 1:
            near = ops.logical_and(near, ops.equal(ops.mod(steps, self.dilation), 0))
        if not self.global_tokens:
            return near, gaussian
        is_global = places < self.global_tokens
        if own:  # global tokens also attend to all positions
            rows, _ = unmasked_positions(ops.shape(query)[1], query_mask)
            is_global = ops.logical_or(is_global, (rows < self.global_tokens)[:, None, 0, :, None])
        if gaussian is not None:
            gaussian = ops.where(is_global, 1.0, gaussian)
        return ops.logical_or(near, is_global), gaussian

    def _require_plain_windows(self, use):
        """Raises a ValueError for options that are only supported in plain self-attention."""
        for name, value in (
            ("random_blocks", self.random_blocks),
            ("separate_global_projections", self.global_heads is not None),
        ):
            if value:
                raise ValueError(
                    f"ExpandedWindowAttention: {use} is not supported with {name}. "
                    f"Received: {name}={value}"
                )

    def project_memory(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projects a memory once, for repeated calls: see `MultiHeadAttention`."""
        return project_memory(self.heads, value, key, self.compute_dtype)

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
            **self._alignment.get_config(),
        }
