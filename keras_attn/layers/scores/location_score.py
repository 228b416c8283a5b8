"""Location score."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.seeds import seeded_initializer
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.products import linear
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LocationScore(CheckedLayer):
    """Location-based score: depends on the query and the position of the key, not its content.

    `score(q, k_j) = w_j^T q + b_j`; without a bias by default, as in the paper.

    Args:
        max_length: Maximum number of keys, each position with its own w.
        kernel_initializer: Initializer of the w, `(query depth, max_length)`.
        seed: Integer seed of the initial weights.
        use_bias: Whether there is a bias b_j for each position, initialized with zeros.

    Call arguments:
        query: `(B, T, Q)`.
        key: `(B, S, K)`; only its length is used.

    Returns:
        Scores `(B, T, S)`, in the dtype of the query.

    Raises:
        ValueError: If `max_length` is not positive or S exceeds it. In a TensorFlow graph with
            unknown S, TensorFlow raises its own error when the graph runs.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.1, eq. 8.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import LocationScore
        >>> score = LocationScore(3, kernel_initializer="ones")
        >>> scores = score(np.array([[[1.0, 2.0]]]), np.zeros((1, 2, 5)))
        >>> print(ops.convert_to_numpy(scores).round(3))
        [[[3. 3.]]]
    """

    AXES = {"query": "BTQ", "key": "NSK"}  # the batch size of the key is not used

    def __init__(
        self,
        max_length: int,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(max_length=max_length)
        self.max_length = max_length
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.use_bias = use_bias
        self.supports_masking = True

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=(query_shape[-1], self.max_length),
            initializer=seeded_initializer(self.kernel_initializer, self.seed),
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.max_length,), initializer="zeros")
        self.built = True

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        length = ops.shape(key)[1]
        # PyTorch replaces unknown lengths by an arbitrary number when tracing.
        known = isinstance(length, int) and not getattr(key, "is_meta", False)
        if known and length > self.max_length:
            raise ValueError(
                f"LocationScore: the number of keys exceeds max_length={self.max_length}. Create "
                f"the layer with a larger max_length. Received: key.shape={tuple(key.shape)}"
            )
        scores = linear(query, self.kernel, self.bias)
        if known or ops.is_tensor(length):
            # The reshape fails if the length turns out to exceed max_length at run time.
            return ops.reshape(scores[..., :length], (*ops.shape(scores)[:-1], length))
        # Only during shape inference, where a slice would have at most max_length entries.
        return ops.take(scores, ops.arange(length, dtype="int32"), axis=-1)

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "seed": self.seed,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
