"""Position-wise feed-forward network."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.products import apply_rowwise, remat_except_matmuls
from keras_attn.types import Activation, Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class PositionwiseFeedForward(CheckedLayer):
    """Applies the same two-layer feed-forward network at every position.

    `FFN(x) = activation(x W1 + b1) W2 + b2`, or with `gated`
    `FFN(x) = (activation(x W1 + b1) * (x V + c)) W2 + b2`.

    Args:
        intermediate_dim: Feed-forward size, the number of hidden units.
        output_dim: Depth of the output; defaults to the input's.
        activation: `"gelu_tanh"`, `"gelu_erf"`, the name of a Keras activation, or a function.
        dropout: Dropout rate of the hidden units.
        use_bias: Whether the two layers have biases.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        output_initializer: Initializer of the kernel W2; defaults to `kernel_initializer`.
        seed: Integer seed of the initial weights and of dropout.
        gated: Whether the hidden units are gated, as in GEGLU and SwiGLU. W1 and V are the halves
            of one kernel, so they need a single matrix product.

    Call arguments:
        inputs: `(..., D)`.
        training: Whether to apply dropout.

    Returns:
        `(..., output_dim)`.

    Raises:
        ValueError: If an argument is out of range or the activation is unknown.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, eq. 2; gated: Shazeer, GLU Variants Improve
        Transformer, 2020, eq. 6.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import PositionwiseFeedForward
        >>> layer = PositionwiseFeedForward(3, kernel_initializer="ones")
        >>> print(ops.convert_to_numpy(layer(np.array([[[1.0, 1.0], [-1.0, 0.0]]]))))
        [[[6. 6.]
          [0. 0.]]]
    """

    def __init__(
        self,
        intermediate_dim: int,
        output_dim: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.0,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        output_initializer: Initializer | None = None,
        seed: int | None = None,
        gated: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(intermediate_dim=intermediate_dim)
        require_sizes(optional=True, output_dim=output_dim)
        require_rates(dropout=dropout)
        self.intermediate_dim = intermediate_dim
        self.output_dim = output_dim
        self.activation = get_activation(activation)
        self.dropout = dropout
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.output_initializer = keras.initializers.get(output_initializer)
        self.seed = seed
        self.gated = gated
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        seeds = split_seed(self.seed, 3)
        bias_seeds = split_seed(self.seed, 2, stream=1)
        self.intermediate = self._dense(
            "intermediate",
            (1 + self.gated) * self.intermediate_dim,
            self.kernel_initializer,
            seeds[0],
            bias_seeds[0],
            activation=None if self.gated else self.activation,
        )
        self.output_dense = self._dense(
            "output",
            self.output_dim or input_shape[-1],
            self.output_initializer or self.kernel_initializer,
            seeds[1],
            bias_seeds[1],
        )
        self.seed_generator = dropout_generator(self.dropout, seeds[2], "dropout")
        self.intermediate.build(input_shape)
        self.output_dense.build((*input_shape[:-1], self.intermediate_dim))
        # The widths of the projections that share a kernel, which optimizers.Muon reads.
        self.intermediate.kernel.projection_dims = (self.intermediate_dim,) * (1 + self.gated)
        self.output_dense.kernel.projection_dims = (self.output_dense.units,)
        self.built = True

    def _dense(self, name, units, initializer, seed, bias_seed, activation=None):
        return keras.layers.Dense(
            int(units),  # Keras rejects NumPy integers
            activation=activation,
            use_bias=self.use_bias,
            kernel_initializer=seeded_initializer(initializer, seed),
            bias_initializer=seeded_initializer(self.bias_initializer, bias_seed),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return apply_rowwise(lambda x: self._rows(x, training), inputs)

    def _rows(self, x, training):
        # (R, D) -> (R, F) -> (R, output_dim)
        x = remat_except_matmuls(self._hidden_units)(x)
        return self.output_dense(drop(x, self.dropout, self.seed_generator, training))

    def _hidden_units(self, x):
        if not self.gated:
            return self.intermediate(x)
        x, gate = ops.split(self.intermediate(x), 2, axis=-1)
        return self.activation(x) * gate

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.output_dim or input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "output_dim": self.output_dim,
            "activation": serialize_activation(self.activation),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "output_initializer": keras.initializers.serialize(self.output_initializer),
            "seed": self.seed,
            "gated": self.gated,
        }
