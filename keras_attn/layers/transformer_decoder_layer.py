"""Transformer decoder layer."""

import keras

from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.seeds import drop, dropout_generator, split_seed
from keras_attn.layers.transformer_layer import TransformerLayer
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and a feed-forward network, with residual connections.

    Post-norm, as in the paper: `x = LN(x + attention(x)); x = LN(x + attention(x, encoded)); x =
    LN(x + FFN(x))`. With `norm_first` pre-norm: each norm is applied to the input of its sublayer,
    and the stack needs a final norm.

    Args:
        num_heads: Number of attention heads.
        intermediate_dim: Feed-forward size.
        key_dim: Depth of a head; defaults to the depth of the inputs divided by `num_heads`.
        dropout: Dropout rate of the sublayer outputs, before the residual connection.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        activation: Feed-forward activation: `"gelu_tanh"`, `"gelu_erf"`, the name of a Keras
            activation, or a function.
        norm_first: Whether to use pre-norm instead of post-norm.
        layer_norm_epsilon: Added to the variance.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Integer seed of the initial weights and of dropout.
        norm: `"layer"`, `"rms"` (RMSNorm), or a Keras layer, which is copied for each place, such
            as `keras.layers.BatchNormalization()` or `GroupNormalization(-1)` (instance norm).
            Layers that normalize over positions include the padding.

    Call arguments:
        inputs: `(B, T, D)`.
        encoded: `(B, S, E)`, the encoder output; None with `memory`.
        padding_mask: Boolean or integer `(B, T)`, True for real positions. With a cache of length
            L: `(B, L)`, for all positions.
        attention_mask: Boolean or integer `(B, T, T)`, False where a position may not attend to an
            earlier one; with a cache `(B, T, L)`.
        encoded_mask: Boolean or integer `(B, S)`, True for real positions of `encoded`.
        return_attention_scores: Whether to also return the cross-attention weights, before dropout.
        cache: Cache of self-attention, as in `MultiHeadAttention`; see `make_cache`.
        cache_index: As in `MultiHeadAttention`.
        memory: The result of `project_memory(encoded)`, computed once for all decoding steps.
        training: Whether to apply dropout.

    Masks that Keras attaches to `inputs` and `encoded` are used where these masks are None.

    Returns:
        `(B, T, D)`; then, if requested, the weights `(B, H, T, S)`; then the updated cache if one
        was given.

    Raises:
        ValueError: If an argument is out of range, both or neither of `encoded` and `memory` are
            given, or the depth of the inputs is not a multiple of `num_heads`.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import TransformerDecoderLayer
        >>> layer = TransformerDecoderLayer(num_heads=2, intermediate_dim=16, seed=0)
        >>> target, source = np.random.default_rng(0).normal(size=(2, 1, 3, 8))
        >>> whole, beginning = layer(target, source), layer(target[:, :2], source)
        >>> print(round(float(ops.max(ops.abs(whole[:, :2] - beginning))), 4))  # causal
        0.0
    """

    def build(self, inputs_shape: Shape, encoded_shape: Shape | None = None) -> None:
        seeds = split_seed(self.seed, 6)
        options = self.attention_options("inputs_shape", inputs_shape)
        self.self_attention, self.cross_attention = (
            MultiHeadAttention(fused=fused, seed=seed, name=name, **options)
            for name, fused, seed in (
                ("self_attention", "qkv", seeds[0]),
                ("cross_attention", "kv", seeds[1]),
            )
        )
        self.feed_forward = PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            seed=seeds[2],
            name="feed_forward",
            **self.sublayer_options(),
        )
        names = ("self_attention", "cross_attention", "feed_forward")
        self.norms = [self.make_norm(f"{name}_norm") for name in names]
        self.seed_generators = [
            dropout_generator(self.dropout, seed, f"{name}_dropout")
            for name, seed in zip(names, seeds[3:], strict=True)
        ]
        self.self_attention.build(inputs_shape, inputs_shape)
        self.cross_attention.build(inputs_shape, encoded_shape or inputs_shape)
        for layer in (self.feed_forward, *self.norms):
            layer.build(inputs_shape)
        self.built = True

    def make_cache(
        self, batch_size: int, length: int, dtype: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Creates an empty cache of self-attention; see `MultiHeadAttention.make_cache`."""
        return self.self_attention.make_cache(batch_size, length, dtype)

    def project_memory(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Projects the keys and values of cross-attention: each `(B, H, S, key_dim)`."""
        return self.cross_attention.project_memory(encoded)

    def call(
        self,
        inputs: Tensor,
        encoded: Tensor | None = None,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoded_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: Tensor | int | None = None,
        memory: tuple[Tensor, Tensor] | None = None,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        if (encoded is None) == (memory is None):
            raise ValueError(
                "TransformerDecoderLayer: exactly one of encoded and memory must be "
                f"given. Received: {'neither' if encoded is None else 'both'}"
            )
        results = []

        def attend_to_itself(x):
            attended = self.self_attention(
                x,
                x,
                value_mask=padding_mask,
                attention_mask=attention_mask,
                use_causal_mask=cache is None,
                cache=cache,
                cache_index=cache_index,
                training=training,
            )
            if cache is None:
                return attended
            results.append(attended[1])
            return attended[0]

        def attend_to_encoder(x):
            attended = self.cross_attention(
                x,
                encoded,
                value_mask=encoded_mask,
                memory=memory,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                attended, scores = attended
                results.insert(0, scores)
            return attended

        x = inputs
        for number, sublayer in enumerate(
            (attend_to_itself, attend_to_encoder, lambda x: self.feed_forward(x, training=training))
        ):
            norm = self.norms[number]
            y = sublayer(norm(x) if self.norm_first else x)
            x = x + drop(y, self.dropout, self.seed_generators[number], training)
            if not self.norm_first:
                x = self.normalize(norm, x)
        return (x, *results) if results else x

    def compute_output_shape(
        self, inputs_shape: Shape, encoded_shape: Shape | None = None
    ) -> Shape:
        return inputs_shape
