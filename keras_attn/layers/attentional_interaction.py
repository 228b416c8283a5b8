"""Attention over pairwise feature interactions."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import dropout_generator, seeded_initializer, split_seed
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.products import linear, upcast_float16
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Initializer, Nest, Regularizer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionalInteraction(CheckedLayer):
    """Attention-weighted average of the element-wise products of all pairs of features.

    `e_ij = h^T relu(W (v_i * v_j) + b)`, `a = softmax` of e over all pairs `i < j`,
    `output = sum_{i<j} a_ij (v_i * v_j)`, with element-wise products. The output of a row with
    fewer than two features is 0.

    Args:
        attention_units: Hidden units of the attention network.
        dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of W, `(D, attention_units)`, and of h.
        kernel_regularizer: Regularizer of W.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: `(B, F, D)`, the embedding of each feature times its value.
        mask: Boolean or integer `(B, F)`, False for absent features; defaults to the Keras mask of
            the inputs.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        training: Whether to apply dropout.

    Returns:
        `(B, D)`; with `return_attention_scores` then the weights `(B, F (F - 1) / 2)` of the pairs
        (0, 1), (0, 2), …

    Raises:
        ValueError: If an argument is out of range, the number of features F is unknown or less than
            2, or a mask is float.

    Reference:
        Xiao et al., Attentional Factorization Machines, 2017, eq. 3-5. (The authors' code applies
        the softmax over an axis of size 1, so all its weights are 1.)

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import AttentionalInteraction
        >>> layer = AttentionalInteraction(4, kernel_initializer="zeros")
        >>> found = layer(np.array([[[2.0], [3.0], [5.0]]]))
        >>> print(ops.convert_to_numpy(found).round(3))  # 31 / 3
        [[10.333]]
    """

    AXES = {"inputs": "BFD"}

    def __init__(
        self,
        attention_units: int = 8,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(attention_units=attention_units)
        require_rates(dropout=dropout)
        self.attention_units = attention_units
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.seed = seed
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.require_axes(inputs=input_shape)
        _, features, depth = input_shape
        if features is None or features < 2:
            raise ValueError(
                "AttentionalInteraction: the number of features must be known and at "
                f"least 2. Received: input_shape={input_shape}"
            )
        kernel_seed, vector_seed, dropout_seed = split_seed(self.seed, 3)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(depth, self.attention_units),
            initializer=seeded_initializer(self.kernel_initializer, kernel_seed),
            regularizer=self.kernel_regularizer,
        )
        self.bias = self.add_weight(name="bias", shape=(self.attention_units,), initializer="zeros")
        self.vector = self.add_weight(
            name="vector",
            shape=(self.attention_units, 1),
            initializer=seeded_initializer(self.kernel_initializer, vector_seed),
        )
        self.pairs = np.triu_indices(features, 1)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={1: features})
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        # (B, F, D) -> (B, P, D)
        (features,) = upcast_float16(inputs)
        products = ops.multiply(*(ops.take(features, side, axis=1) for side in self.pairs))
        mask = as_mask(mask)
        if mask is not None:
            mask = ops.logical_and(*(ops.take(mask, side, axis=1) for side in self.pairs))
            products = ops.where(mask[..., None], products, 0)
        # (B, P, D) x (D, A) -> (B, P, A) -> (B, P)
        kernel, bias, vector = (
            ops.cast(x, products.dtype) for x in (self.kernel, self.bias, self.vector)
        )
        hidden = ops.relu(linear(products, kernel, bias))
        weights = masked_softmax(linear(hidden, vector)[..., 0], mask)
        output = weighted_average(
            weights[:, None], products, self.dropout if training else 0.0, self.seed_generator
        )[:, 0]
        output = ops.cast(output, inputs.dtype)
        return (output, ops.cast(weights, inputs.dtype)) if return_attention_scores else output

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], input_shape[-1]

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "attention_units": self.attention_units,
            "dropout": self.dropout,
            "seed": self.seed,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
        }
