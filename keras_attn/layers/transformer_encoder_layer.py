"""One layer of a Transformer encoder."""

import keras

from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.positionwise_feed_forward import PositionwiseFeedForward
from keras_attn.layers.seeds import drop, dropout_generator, split_seed
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.products import by_rows


@keras.saving.register_keras_serializable(package="keras_attn")
class TransformerEncoderLayer(keras.layers.Layer):
    """Self-attention and a feed-forward network, each with a residual.

    `x = LN(x + attention(x)); x = LN(x + FFN(x))` as in the paper and BERT, or
    with `norm_first` `x = x + attention(LN(x)); x = x + FFN(LN(x))`, after
    whose last layer another LN is due.

    Args:
        num_heads: Number of attention heads.
        intermediate_dim: Width inside the feed-forward network.
        key_dim: Depth of a head; the input's depth over `num_heads` if None.
        dropout: Share of each sublayer's output dropped in training, before
            the residual.
        attention_dropout: Share of attention weights dropped; `dropout` if None.
        activation: Activation of the feed-forward network: `"gelu_tanh"`,
            `"gelu_erf"`, a name Keras knows, or a function.
        norm_first: Whether the norm comes before each sublayer.
        layer_norm_epsilon: Added to the variance.
        initial_shifts: As in `MultiHeadAttention`.
        kernel_initializer, bias_initializer: Initializers.
        seed: Integer for initial weights and dropout.

    Call arguments:
        inputs: `(B, T, D)`.
        padding_mask: Boolean or integer `(B, T)`, True for real positions; the
            mask Keras attaches to the inputs if None. With a cache of length S
            `(B, S)`, of all positions, and that of Keras does not serve.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, T)`,
            or `(B, 1 or H, T, T)`; True where a query may attend to a key.
        use_causal_mask: Whether later positions are hidden.
        return_attention_scores: Also return the weights, before dropout.
        cache, cache_index: As in `MultiHeadAttention`.
        training: Whether dropout is on.

    Returns:
        `(B, T, D)`; then the weights `(B, H, T, T)` if asked for, then the
        cache if one was given.

    Raises:
        ValueError: If an argument is out of range, or the depth of the inputs
            is no multiple of `num_heads`.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.1; the order
        with `norm_first`: Xiong et al., On Layer Normalization in the
        Transformer Architecture, 2020.
    """

    def __init__(
        self,
        num_heads,
        intermediate_dim,
        key_dim=None,
        dropout=0.0,
        attention_dropout=None,
        activation="relu",
        norm_first=False,
        layer_norm_epsilon=1e-5,
        initial_shifts=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        sizes = {"num_heads": num_heads, "intermediate_dim": intermediate_dim, "key_dim": key_dim}
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ValueError(f"{name} must be positive. Received: {name}={size}")
        for name, rate in {"dropout": dropout, "attention_dropout": attention_dropout}.items():
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name} must be in [0, 1). Received: {name}={rate}")
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.key_dim = key_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = get_activation(activation)
        self.norm_first = norm_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initial_shifts = initial_shifts
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, input_shape):
        depth = input_shape[-1]
        if self.key_dim is None and depth % self.num_heads:
            raise ValueError(
                "The depth of the inputs must be a multiple of num_heads, or key_dim be given. "
                f"Received: input_shape={tuple(input_shape)}, num_heads={self.num_heads}"
            )
        seeds = split_seed(self.seed, 4)
        shared = {
            "kernel_initializer": self.kernel_initializer,
            "bias_initializer": self.bias_initializer,
            "dtype": self.dtype_policy,
        }
        rate = self.dropout if self.attention_dropout is None else self.attention_dropout
        self.attention = MultiHeadAttention(
            self.num_heads,
            self.key_dim or depth // self.num_heads,
            dropout=rate,
            initial_shifts=self.initial_shifts,
            seed=seeds[0],
            name="attention",
            **shared,
        )
        self.feed_forward = PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            seed=seeds[1],
            name="feed_forward",
            **shared,
        )
        self.attention_norm = self._norm("attention_norm")
        self.feed_forward_norm = self._norm("feed_forward_norm")
        self.seed_generators = [
            dropout_generator(self.dropout, seeds[2], "attention_dropout"),
            dropout_generator(self.dropout, seeds[3], "feed_forward_dropout"),
        ]
        self.attention.build(input_shape, input_shape)
        for layer in (self.feed_forward, self.attention_norm, self.feed_forward_norm):
            layer.build(input_shape)
        self.built = True

    def _norm(self, name):
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def call(
        self,
        inputs,
        padding_mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        cache=None,
        cache_index=None,
        training=None,
    ):
        # Not by rows, which would lose a mask of Keras that attention is to find.
        x = self.attention_norm(inputs) if self.norm_first else inputs
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
        )
        attended, *results = attended if isinstance(attended, tuple) else (attended,)
        x = inputs + drop(attended, self.dropout, self.seed_generators[0], training)
        if not self.norm_first:
            x = by_rows(self.attention_norm, x)
        y = self.feed_forward(by_rows(self.feed_forward_norm, x) if self.norm_first else x)
        x = x + drop(y, self.dropout, self.seed_generators[1], training)
        if not self.norm_first:
            x = by_rows(self.feed_forward_norm, x)
        return (x, *results) if results else x

    def compute_output_shape(self, input_shape):
        return input_shape

    def compute_output_spec(self, *args, **kwargs):
        # By tracing: the number of outputs depends on the arguments.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "key_dim": self.key_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation": serialize_activation(self.activation),
            "norm_first": self.norm_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initial_shifts": self.initial_shifts,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
        }
