"""Base class of the Transformer encoder and decoder layers."""

from typing import Any

import keras

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.products import apply_rowwise
from keras_attn.types import Activation, Initializer, LayerLike, Shape, Tensor

NORMS = {"layer": LayerNorm, "rms": keras.layers.RMSNormalization}


class TransformerLayer(CheckedLayer):
    """Arguments and sublayer options shared by the Transformer encoder and decoder layers."""

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
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        norm: str | LayerLike = "layer",
        use_bias: bool = True,
        norm_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(num_heads=num_heads, intermediate_dim=intermediate_dim)
        require_sizes(optional=True, key_dim=key_dim)
        require_rates(dropout=dropout)
        require_rates(optional=True, attention_dropout=attention_dropout)
        require_not_negative(layer_norm_epsilon=layer_norm_epsilon)
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.key_dim = key_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = get_activation(activation)
        self.norm_first = norm_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.seed = seed
        # A layer is only a template: its config is enough.
        is_layer = isinstance(norm, keras.layers.Layer)
        self.norm = keras.saving.serialize_keras_object(norm) if is_layer else norm
        if not isinstance(self.norm, dict) and self.norm not in NORMS:
            raise ValueError(
                f"{type(self).__name__}: norm must be one of {', '.join(NORMS)}, or a layer. "
                f"Received: norm={norm!r}"
            )
        if not norm_bias and self.norm != "layer":
            raise ValueError(
                f"{type(self).__name__}: norm_bias=False requires norm='layer'. "
                f"Received: norm={norm!r}"
            )
        self.use_bias = use_bias
        self.norm_bias = norm_bias
        self.supports_masking = True

    def sublayer_options(self) -> dict[str, Any]:
        """Arguments of both the attention layers and the feed-forward network."""
        return {
            "use_bias": self.use_bias,
            "kernel_initializer": self.kernel_initializer,
            "bias_initializer": self.bias_initializer,
            "dtype": self.dtype_policy,
        }

    def attention_options(self, name: str, shape: Shape) -> dict[str, Any]:
        """Arguments of an attention layer for a shape, which `build` receives as `name`."""
        depth = shape[-1]
        if self.key_dim is None and depth % self.num_heads:
            raise ValueError(
                f"{type(self).__name__}: the depth of the inputs must be a multiple of num_heads, "
                "unless key_dim is given. "
                f"Received: {name}={tuple(shape)}, num_heads={self.num_heads}"
            )
        rate = self.dropout if self.attention_dropout is None else self.attention_dropout
        return {
            "num_heads": self.num_heads,
            "key_dim": self.key_dim or depth // self.num_heads,
            "dropout": rate,
            **self.sublayer_options(),
        }

    def make_norm(self, name: str) -> keras.Layer:
        """Creates a normalization layer; a layer passed as `norm` is copied, without weights."""
        if isinstance(self.norm, dict):
            config = {**self.norm["config"], "name": name}
            return keras.saving.deserialize_keras_object({**self.norm, "config": config})
        options = {} if self.norm_bias else {"center": False}
        return NORMS[self.norm](
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name, **options
        )

    def normalize(self, norm: keras.Layer, x: Tensor) -> Tensor:
        """Applies a norm, by rows of tokens unless a layer may normalize over several tokens."""
        return norm(x) if isinstance(self.norm, dict) else apply_rowwise(norm, x)

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
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
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
            "norm": self.norm,
            "use_bias": self.use_bias,
            "norm_bias": self.norm_bias,
        }
