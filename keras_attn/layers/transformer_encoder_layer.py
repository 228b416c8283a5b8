"""Transformer encoder layer."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_attn.layers.heads import head_mask
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.seeds import drop, dropout_generator, split_seed
from keras_attn.layers.transformer_layer import TransformerLayer
from keras_attn.layers.window_attention import WindowAttention
from keras_attn.ops import combine_masks, pack_mask
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Activation, Initializer, LayerLike, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm.

    Post-norm, as in the paper and BERT: `x = LN(x + attention(x)); x = LN(x + FFN(x))`. With
    `norm_first` pre-norm: `x = x + attention(LN(x)); x = x + FFN(LN(x))`, and the stack needs a
    final norm.

    Args:
        num_heads: Number of attention heads.
        intermediate_dim: Feed-forward size.
        key_dim: Depth of a head; defaults to the depth of the inputs divided by `num_heads`.
        dropout: Dropout rate of the sublayer outputs, before the residual connection.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        activation: Feed-forward activation: `"gelu_tanh"`, `"gelu_erf"`, `"relu2"`, the name of a
            Keras activation, or a function.
        norm_first: Whether to use pre-norm instead of post-norm.
        layer_norm_epsilon: Added to the variance.
        initial_shifts: See `MultiHeadAttention`.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        output_initializer: Initializer of the kernels whose results are added to the residual;
            defaults to `kernel_initializer`.
        seed: Integer seed of the initial weights and of dropout.
        norm: `"layer"`, `"rms"` (RMSNorm), or a Keras layer, which is copied for each place, such
            as `keras.layers.BatchNormalization()` or `GroupNormalization(-1)` (instance norm).
            Layers that normalize over positions include the padding.
        use_bias: Whether attention and feed-forward network have biases.
        norm_bias: Whether layer norms have a bias; requires `norm="layer"`.
        normalize_input: With `norm_first`, whether the input of the attention is normalized, which
            the first layer does not need after a norm of the embeddings.
        gated: Whether the hidden units of the feed-forward network are gated: see
            `PositionwiseFeedForward`.
        position: Position layer of the attention: see `MultiHeadAttention`, or with `window`
            `WindowAttention`.
        window: Number of positions visible on either side, in `O(T window)` time and memory: see
            `WindowAttention`; None: all positions.
        qk_norm: Whether queries and keys are normalized: see `MultiHeadAttention`.

    Call arguments:
        inputs: `(B, T, D)`.
        padding_mask: Boolean or integer `(B, T)`, True for real positions; defaults to the Keras
            mask of the inputs. With a cache of length S: `(B, S)`, for all positions, without a
            default.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, T)`, or
            `(B, 1 or H, T, T)`; True where a query may attend to a key.
        use_causal_mask: Whether to mask later positions.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        cache: As in `MultiHeadAttention`.
        cache_index: As in `MultiHeadAttention`.
        training: Whether to apply dropout.
        position_ids: As in `MultiHeadAttention`.
        pack_ids: Integers `(B, T)`, the number of the example of each position, if several examples
            share a row; they do not attend to each other. Unsupported with a cache.

    Returns:
        `(B, T, D)`; then, if requested, the weights `(B, H, T, T)`; then the updated cache if one
        was given.

    Raises:
        ValueError: If an argument is out of range, or the depth of the inputs is not a multiple of
            `num_heads`.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1; pre-norm: Xiong et al., On
        Layer Normalization in the Transformer Architecture, 2020; without biases, gated, with a
        window and `normalize_input=False`: Warner et al., ModernBERT, 2024.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import TransformerEncoderLayer
        >>> layer = TransformerEncoderLayer(num_heads=2, intermediate_dim=16, seed=0)
        >>> output, weights = layer(np.ones((1, 3, 8)), return_attention_scores=True)
        >>> print(output.shape, ops.convert_to_numpy(weights)[0, 0, 0].round(3))
        (1, 3, 8) [0.333 0.333 0.333]
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        key_dim: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation: Activation = "relu",
        norm_first: bool = False,
        layer_norm_epsilon: float = 1e-5,
        initial_shifts: Sequence[int] | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        output_initializer: Initializer | None = None,
        seed: int | None = None,
        norm: str | LayerLike = "layer",
        use_bias: bool = True,
        norm_bias: bool = True,
        normalize_input: bool = True,
        gated: bool = False,
        position: LayerLike | None = None,
        window: int | None = None,
        qk_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            intermediate_dim,
            key_dim,
            dropout,
            attention_dropout,
            activation,
            norm_first,
            layer_norm_epsilon,
            kernel_initializer,
            bias_initializer,
            seed,
            norm,
            use_bias,
            norm_bias,
            **kwargs,
        )
        if not norm_first and not normalize_input:
            raise ValueError(
                "TransformerEncoderLayer: normalize_input=False requires norm_first=True. "
                f"Received: norm_first={norm_first}"
            )
        require_sizes(optional=True, low=0, window=window)
        if window is not None and initial_shifts is not None:
            raise ValueError(
                "TransformerEncoderLayer: initial_shifts are not supported with a window. "
                f"Received: initial_shifts={initial_shifts}, window={window}"
            )
        self.normalize_input = normalize_input
        self.gated = gated
        self.position = as_layer(position)
        self.window = window
        self.qk_norm = qk_norm
        self.initial_shifts = initial_shifts
        self.output_initializer = keras.initializers.get(output_initializer)

    def build(self, input_shape: Shape) -> None:
        seeds = split_seed(self.seed, 4)
        attention: dict[str, Any] = {
            "position": self.position,
            "qk_norm": self.qk_norm,
            "output_initializer": self.output_initializer,
            "seed": seeds[0],
            "name": "attention",
            **self.attention_options("input_shape", input_shape),
        }
        self.attention = (
            MultiHeadAttention(initial_shifts=self.initial_shifts, **attention)
            if self.window is None
            else WindowAttention(window=self.window, **attention)
        )
        self.feed_forward = PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            output_initializer=self.output_initializer,
            seed=seeds[1],
            gated=self.gated,
            name="feed_forward",
            **self.sublayer_options(),
        )
        self.attention_norm = self.make_norm("attention_norm") if self.normalize_input else None
        self.feed_forward_norm = self.make_norm("feed_forward_norm")
        self.seed_generators = [
            dropout_generator(self.dropout, seeds[2], "attention_dropout"),
            dropout_generator(self.dropout, seeds[3], "feed_forward_dropout"),
        ]
        self.attention.build(input_shape, input_shape)
        for layer in (self.feed_forward, self.attention_norm, self.feed_forward_norm):
            if layer is not None:
                layer.build(input_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: Tensor | int | None = None,
        training: bool | None = None,
        position_ids: Tensor | None = None,
        pack_ids: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        # Not row-wise, which would drop the Keras mask that the attention layer uses.
        normalize = self.norm_first and self.normalize_input
        x = self.attention_norm(inputs) if normalize else inputs  # type: ignore[misc]
        options: dict[str, Any] = {}
        if self.window is not None:
            options["pack_ids"] = pack_ids
        elif pack_ids is not None:
            attention_mask = combine_masks(head_mask(attention_mask), pack_mask(pack_ids)[:, None])
        attended = self.attention(
            x,
            x,
            value_mask=padding_mask,
            attention_mask=attention_mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            cache=cache,
            cache_index=cache_index,
            training=training,
            position_ids=position_ids,
            **options,
        )
        attended, *results = attended if isinstance(attended, tuple) else (attended,)
        x = inputs + drop(attended, self.dropout, self.seed_generators[0], training)
        if not self.norm_first:
            x = self.normalize(self.attention_norm, x)
        y = self.feed_forward(self.normalize(self.feed_forward_norm, x) if self.norm_first else x)
        x = x + drop(y, self.dropout, self.seed_generators[1], training)
        if not self.norm_first:
            x = self.normalize(self.feed_forward_norm, x)
        return (x, *results) if results else x

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "initial_shifts": self.initial_shifts,
            "output_initializer": keras.initializers.serialize(self.output_initializer),
            "normalize_input": self.normalize_input,
            "gated": self.gated,
            "position": layer_config(self.position, self),
            "window": self.window,
            "qk_norm": self.qk_norm,
        }
