"""Multi-head self-attention that mixes global and local attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads, head_mask
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.layers.window_attention import self_attention_mask
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import as_mask, causal_mask, combine_masks
from keras_attn.ops.products import linear, upcast_float16
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.ops.windows import window_mask
from keras_attn.types import Initializer, Shape, Tensor

MIXES = "gate", "heads", "cascade"
GATES = "query", "head", "scalar"


@keras.saving.register_keras_serializable(package="keras_attn")
class MixedAttention(CheckedLayer):
    """Multi-head self-attention that combines global attention with attention to a local window.

    With the weights `A` of attention to all positions and `L` of attention to those at most
    `window` away, from the same queries and keys:

    - `"gate"`: `g A V + (1 - g) L V`, where `g = sigmoid(w^T x_i + b)` per head (`gate="query"`),
      or a learned scalar per head (`"head"`) or for all heads (`"scalar"`);
    - `"heads"`: the first `global_heads` heads are global, the others local;
    - `"cascade"`: the weights of global attention inside the window, not renormalized, so a head
      that attends far away contributes little.

    No paper defines this layer; the formulas are ours. Memory is `O(T^2)`.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        window: Window size of local attention on either side.
        mix: `"gate"`, `"heads"` or `"cascade"`.
        gate: For `mix="gate"`: `"query"`, `"head"` or `"scalar"`.
        global_heads: Number of global heads for `mix="heads"`; defaults to half of the heads, which
            requires at least two.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        kernel_initializer: Initializer of the kernels; the gate is initialized with zeros.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        query: `(B, T, D)`.
        value: The query itself, or None.
        key: The query itself, or None.

    The other call arguments match `MultiHeadAttention`; a cache is not supported.

    Returns:
        `(B, T, D)`; with `return_attention_scores` then the mixed weights, `(B, H, T, T)`.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, a mask is float, or value or
            key is not the query.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import MixedAttention
        >>> layer = MixedAttention(1, 1, window=0)  # half global, half local
        >>> _, weights = layer(np.zeros((1, 2, 1)), return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0].round(4))
        [[0.75 0.25]
         [0.25 0.75]]
    """

    AXES = {"query": "BTD"}

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
        self.window = window
        self.mix = mix
        self.gate = gate
        self.dropout = dropout
        self.supports_masking = True

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        self.heads.build(self, query_shape)
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
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        query_mask = self_attention_mask(self, query, value, key, query_mask, mask)
        length = ops.shape(query)[1]
        projected = self.heads.project(query=query, key=query, value=query)
        key, value = projected["key"], projected["value"]
        mask = self._mask(length, query_mask, value_mask, attention_mask, use_causal_mask)
        near = window_mask(length, self.window, self.window)
        scale = ops.cast(self.heads.key_dim**-0.5, key.dtype)
        # (B, H, T, K) x (B, H, T, K) -> (B, H, T, T)
        logits = ops.matmul(*upcast_float16(projected["query"] * scale, ops.swapaxes(key, -1, -2)))
        weights = self._mixed(query, logits, mask, near)
        output = self.heads.output(
            weighted_average(weights, value, self.dropout if training else 0.0, self.seed_generator)
        )
        return (output, ops.cast(weights, query.dtype)) if return_attention_scores else output

    def _mask(self, length, query_mask, value_mask, attention_mask, causal):
        mask = head_mask(as_mask(attention_mask, "attention_mask"))
        value_mask = query_mask if value_mask is None else value_mask
        if value_mask is not None:
            mask = combine_masks(mask, as_mask(value_mask, "value_mask")[:, None, None, :])
        if query_mask is not None:
            mask = combine_masks(mask, as_mask(query_mask, "query_mask")[:, None, :, None])
        return combine_masks(mask, causal_mask(length, length) if causal else None)

    def _mixed(self, x, logits, mask, near):
        if self.mix == "heads":
            is_global = ops.arange(self.heads.num_heads) < self.global_heads
            near = ops.logical_or(is_global[:, None, None], near)
            return masked_softmax(logits, combine_masks(mask, near))
        everywhere = masked_softmax(logits, mask)
        if self.mix == "cascade":
            return ops.where(near, everywhere, 0.0)
        gate = ops.cast(self.gate_bias, "float32")[:, None, None]  # (H or 1, 1, 1)
        if self.gate_kernel is not None:
            gates = linear(ops.cast(x, "float32"), ops.cast(self.gate_kernel, "float32"))
            gate = gate + ops.transpose(gates, (0, 2, 1))[..., None]  # (B, H, T, 1)
        gate = ops.sigmoid(gate)
        return gate * everywhere + (1.0 - gate) * masked_softmax(logits, combine_masks(mask, near))

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
        }
