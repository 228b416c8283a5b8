"""Multi-head attention that mixes global and local attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.alignment import Alignment
from keras_attn.layers.cache import write_cache
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
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import causal_mask, combine_masks
from keras_attn.ops.products import linear
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.ops.windows import window_mask
from keras_attn.types import Initializer, Shape, Tensor

MIXES = "gate", "heads", "cascade"
GATES = "query", "head", "scalar"


@keras.saving.register_keras_serializable(package="keras_attn")
class MixedAttention(CheckedLayer):
    """Multi-head attention that combines global attention with attention to a local window.

    With the weights `A` of attention to all keys and `L` of attention to those at most `window`
    away from the position p of the query, from the same queries and keys:

    - `"gate"`: `g A V + (1 - g) L V`, where `g = sigmoid(w^T x_i + b)` per head (`gate="query"`),
      or a learned scalar per head (`"head"`) or for all heads (`"scalar"`);
    - `"heads"`: the first `global_heads` heads are global, the others local;
    - `"cascade"`: the weights of global attention inside the window, not renormalized, so a head
      that attends far away contributes little.

    In self-attention, p is the position of the query. In attention to a memory, such as the states
    of an encoder, `p_t` is the position t of the query, at most that of the last key, or predicted
    as in `LocalAttention`: `p_t = S sigmoid(v^T tanh(W q_t))`. With predicted positions, L is
    multiplied by `exp(-(s - p_t)^2 / (2 sigma^2))` without renormalization.

    No paper defines this layer; the formulas are ours. Memory is `O(T S)`.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        window: Window size of local attention on either side.
        mix: `"gate"`, `"heads"` or `"cascade"`.
        gate: For `mix="gate"`: `"query"`, `"head"` or `"scalar"`, whose logit
            `layer.gate_bias.assign([logit])` sets once the layer is built.
        global_heads: Number of global heads for `mix="heads"`; defaults to half of the heads, which
            requires at least two.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the kernels; the gate is initialized with zeros.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights and of dropout.
        alignment: `"monotonic"` or `"predictive"`: whether windows are centered at the positions of
            the queries or at predicted ones.
        sigma: Standard deviation of the Gaussian of predictive alignment; defaults to `window / 2`.

    Call arguments:
        query: `(B, T, D)`.
        value: `(B, S, V)`; None or the query itself for self-attention.
        key: `(B, S, K)`; defaults to `value`.
        value_mask: Boolean or integer `(B, S)`; in self-attention without a cache it defaults to
            `query_mask`.
        query_positions: Integers `(B, T)` or `(T,)`, the t of monotonic alignment when decoding;
            defaults to the positions among the unmasked queries. With them, with predictive
            alignment and with a memory, positions are counted among the unmasked keys.
        cache: As in `MultiHeadAttention`, for self-attention with monotonic alignment.
        memory: Keys and values from `project_memory`, in place of `value` and `key`.

    The other call arguments match `MultiHeadAttention`.

    Returns:
        `(B, T, D)`; then, if requested, the mixed weights `(B, H, T, S)`; then the updated cache if
        one was given.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, a mask is float, or arguments
            exclude each other, such as a cache and a value.

    Examples:
        >>> import keras, numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import MixedAttention
        >>> layer = MixedAttention(1, 1, window=0)  # half global, half local
        >>> _, weights = layer(np.zeros((1, 2, 1)), return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0].round(4))
        [[0.75 0.25]
         [0.25 0.75]]

        A decoder that attends to the states of an encoder:

        >>> from keras_attn.layers import AttentionCell, LuongAttention
        >>> attention = LuongAttention(4, attention=MixedAttention(1, 4, window=2))
        >>> cell = AttentionCell(keras.layers.GRUCell(4), attention)
    """

    AXES = SEQUENCES

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int,
        mix: str = "gate",
        gate: str = "query",
        global_heads: int | None = None,
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
        require_sizes(low=0, window=window)
        require_sizes(optional=True, low=0, global_heads=global_heads)
        if mix not in MIXES:
            raise ValueError(
                f"MixedAttention: mix must be one of {', '.join(MIXES)}. Received: mix={mix!r}"
            )
        if gate not in GATES:
            raise ValueError(
                f"MixedAttention: gate must be one of {', '.join(GATES)}. Received: gate={gate!r}"
            )
        require_rates(dropout=dropout)
        self.heads = Heads(
            num_heads,
            key_dim,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            seed=seed,
        )
        half = num_heads // 2
        if mix != "gate":
            reject_unused('mix="gate"', gate=(gate, "query"))
        if mix != "heads" and global_heads != half:  # saved configs contain it
            reject_unused('mix="heads"', global_heads=(global_heads, None))
        if mix == "heads" and num_heads == 1 and global_heads is None:
            raise ValueError(
                'MixedAttention: mix="heads" requires at least two heads, or '
                f"global_heads. Received: num_heads={num_heads}, global_heads=None"
            )
        self.global_heads = half if global_heads is None else global_heads
        if self.global_heads > num_heads:
            raise ValueError(
                f"MixedAttention: global_heads must be in [0, {num_heads}]. "
                f"Received: global_heads={global_heads}"
            )
        self._alignment = Alignment(
            "MixedAttention",
            alignment,
            sigma,
            window / 2,
            kernel_initializer,
            split_seed(seed, 2, stream=3),
            window=window,
        )
        self.window = window
        self.alignment = alignment
        self.sigma = sigma
        self.mix = mix
        self.gate = gate
        self.dropout = dropout
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        build_heads(self.heads, self, query_shape, value_shape, key_shape)
        if self.mix == "gate":
            shapes = {
                "query": (query_shape[-1], self.heads.num_heads),
                "head": (self.heads.num_heads,),
                "scalar": (1,),
            }
            self.gate_kernel = None
            if self.gate == "query":
                self.gate_kernel = self.add_weight(
                    name="gate_kernel", shape=shapes["query"], initializer="zeros"
                )
            self.gate_bias = self.add_weight(
                name="gate_bias", shape=shapes[self.gate][-1:], initializer="zeros"
            )
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
        own = value is None and memory is None
        if own and cache is None and value_mask is None:
            value_mask = query_mask
        heads, key, value = project_inputs(self.heads, query, value, key, memory)
        if cache is not None:
            (key, value), cache = write_cache(cache, cache_index, (key, value), axis=2)
        length = ops.shape(heads)[2], ops.shape(key)[2]
        causal = use_causal_mask and cache is None
        mask = joint_head_mask(length, query_mask, value_mask, attention_mask, causal)
        gaussian = None
        if not own or self.alignment == "predictive" or query_positions is not None:
            steps, gaussian, _ = distances(
                self._alignment, query, length[1], query_mask, value_mask, query_positions
            )
            near = ops.abs(steps) <= self.window
        elif cache is None:
            near = window_mask(length[1], self.window, self.window)
        else:
            rows = ops.convert_to_tensor(cache_index, "int32") + ops.arange(
                length[0], dtype="int32"
            )
            near = window_mask(length[1], self.window, self.window, rows=rows)
            mask = combine_masks(mask, causal_mask(*length, align="start", offset=cache_index))
        weights = self._mixed(query, scaled_logits(heads, key), mask, near, gaussian)
        output = self.heads.output(
            weighted_average(weights, value, self.dropout if training else 0.0, self.seed_generator)
        )
        results = [ops.cast(weights, query.dtype)] if return_attention_scores else []
        results += [] if cache is None else [cache]
        return (output, *results) if results else output

    def _mixed(self, x, logits, mask, near, gaussian):
        if self.mix == "heads":
            is_global = (ops.arange(self.heads.num_heads) < self.global_heads)[:, None, None]
            weights = masked_softmax(logits, combine_masks(mask, ops.logical_or(is_global, near)))
            return weights if gaussian is None else weights * ops.where(is_global, 1.0, gaussian)
        everywhere = masked_softmax(logits, mask)
        if self.mix == "cascade":
            weights = ops.where(near, everywhere, 0.0)
            return weights if gaussian is None else weights * gaussian
        gate = ops.cast(self.gate_bias, "float32")[:, None, None]  # (H or 1, 1, 1)
        if self.gate_kernel is not None:
            gates = linear(ops.cast(x, "float32"), ops.cast(self.gate_kernel, "float32"))
            gate = gate + ops.transpose(gates, (0, 2, 1))[..., None]  # (B, H, T, 1)
        gate = ops.sigmoid(gate)
        nearby = masked_softmax(logits, combine_masks(mask, near))
        nearby = nearby if gaussian is None else nearby * gaussian
        return gate * everywhere + (1.0 - gate) * nearby

    def make_cache(
        self, batch_size: int, length: int, dtype: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Creates an empty cache for decoding `length` positions: see `MultiHeadAttention`."""
        return self.heads.make_cache(batch_size, length, dtype or self.compute_dtype)

    def project_memory(self, value: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Projects a memory once, for repeated calls: see `MultiHeadAttention`."""
        return project_memory(self.heads, value, key, self.compute_dtype)

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
            "mix": self.mix,
            "gate": self.gate,
            "global_heads": self.global_heads,
            "dropout": self.dropout,
            **self._alignment.get_config(),
        }
