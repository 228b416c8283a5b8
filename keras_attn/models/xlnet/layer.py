"""Transformer layer of XLNet."""

import keras

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.seeds import drop, dropout_generator, split_seed
from keras_attn.layers.two_stream_attention import TwoStreamAttention
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.products import apply_rowwise


@keras.saving.register_keras_serializable(package="keras_attn")
class XLNetLayer(CheckedLayer):
    """Two-stream attention and a feed-forward network, each with a residual connection and
    post-norm.

    Both streams share all weights.

    Args:
        num_heads: See `XLNet`.
        intermediate_dim: See `XLNet`.
        dropout: See `XLNet`.
        attention_dropout: See `XLNet`.
        max_distance: See `XLNet`.
        activation: See `XLNet`.
        layer_norm_epsilon: See `XLNet`.
        kernel_initializer: Initializer of all kernels and attention biases.
        seed: See `XLNet`.

    Call arguments:
        content: See `TwoStreamAttention`.
        query: See `TwoStreamAttention`.
        return_attention_scores: Whether to return the attention weights.
        training: Whether dropout is applied.
        **options: Other call arguments of `TwoStreamAttention`.

    Returns:
        A pair of `(B, T, D)` and `(B, K, D)`, the latter None without a query; then, if requested,
        the attention weights.
    """

    AXES = TwoStreamAttention.AXES
    MASKED_INPUTS = {}  # as in `TwoStreamAttention`

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        dropout=0.0,
        attention_dropout=0.0,
        max_distance=None,
        activation="gelu_tanh",
        layer_norm_epsilon=1e-12,
        kernel_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.max_distance = max_distance
        self.activation = get_activation(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed

    def build(self, content_shape, query_shape=None):
        hidden_dim = content_shape[-1]
        attention_seed, network_seed, *seeds = split_seed(self.seed, 6)
        options = {"kernel_initializer": self.kernel_initializer, "dtype": self.dtype_policy}
        self.attention = TwoStreamAttention(
            self.num_heads,
            hidden_dim // self.num_heads,
            max_distance=self.max_distance,
            dropout=self.attention_dropout,
            bias_initializer=self.kernel_initializer,
            seed=attention_seed,
            name="attention",
            **options,
        )
        self.feed_forward = PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            dropout=self.dropout,
            seed=network_seed,
            name="feed_forward",
            **options,
        )
        self.attention_norm, self.feed_forward_norm = (
            LayerNorm(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name)
            for name in ("attention_norm", "feed_forward_norm")
        )
        for layer in (
            self.attention,
            self.feed_forward,
            self.attention_norm,
            self.feed_forward_norm,
        ):
            layer.build(content_shape)
        names = [
            f"{stream}_{part}_dropout"
            for stream in ("content", "query")
            for part in ("attention", "feed_forward")
        ]
        self.seed_generators = [
            dropout_generator(self.dropout, seed, name)
            for seed, name in zip(seeds, names, strict=True)
        ]
        self.built = True

    def call(self, content, query=None, return_attention_scores=False, training=None, **options):
        found = self.attention(
            content, query, return_attention_scores=True, training=training, **options
        )
        first, second = self.seed_generators[:2], self.seed_generators[2:]
        content = self._finish(content, found[0], first, training)
        if query is not None:
            query = self._finish(query, found[1], second, training)
        weights = found[len(found) // 2 :]
        return (content, query, *weights) if return_attention_scores else (content, query)

    def _finish(self, x, attended, generators, training):
        x = apply_rowwise(
            self.attention_norm, x + drop(attended, self.dropout, generators[0], training)
        )
        y = self.feed_forward(x, training=training)
        return apply_rowwise(
            self.feed_forward_norm, x + drop(y, self.dropout, generators[1], training)
        )

    compute_output_spec = traced_output_spec

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "max_distance": self.max_distance,
            "activation": serialize_activation(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
