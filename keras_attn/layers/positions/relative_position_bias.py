"""T5's relative position bias."""

import math
from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.positions.distances import distances
from keras_attn.layers.seeds import seeded_initializer
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RelativePositionBias(CheckedLayer):
    """Learned attention bias per head that depends on the bucketed distance of query and key.

    `b[h, bucket(j - i)]`: small distances have a bucket each; larger ones share buckets of
    logarithmically growing size, and all distances from `max_distance` share the last. T5 shares
    one such layer among all layers of a stack, and does not divide its logits by `sqrt(key_dim)`.

    Args:
        num_heads: Number of heads H.
        num_buckets: Number of buckets; must be even.
        max_distance: Distance at which the last bucket begins.
        bidirectional: Whether half of the buckets are for keys after the query; otherwise these
            share bucket 0.
        initializer: Initializer of the biases, `(num_buckets, H)`.
        seed: Integer seed of the initial weights.

    Call arguments:
        query: `(..., T, D)`; only its length is used.
        key: `(..., S, D)`; defaults to `query`.
        offset: Integer scalar, the position of the first query among the keys.

    Returns:
        float32 `(H, T, S)`, the `bias` of `scaled_dot_product_attention`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Raffel et al., Exploring the Limits of Transfer Learning with a Unified
        Text-to-Text Transformer, 2020, section 2.1.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import RelativePositionBias
        >>> layer = RelativePositionBias(1, num_buckets=8, max_distance=16)
        >>> print(ops.convert_to_numpy(layer.buckets(np.zeros((1, 2, 4)), np.zeros((1, 10, 4)))))
        [[0 5 6 6 6 6 7 7 7 7]
         [1 0 5 6 6 6 6 7 7 7]]
    """

    AXES = {"query": "...", "key": "..."}  # only their lengths are used

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        exact = num_buckets // (4 if bidirectional else 2)
        if num_buckets % 2 or exact < 1 or max_distance <= exact:
            raise ValueError(
                "RelativePositionBias: num_buckets must be even and at least 4 (2 if not "
                f"bidirectional), and max_distance larger than {exact}, the number of buckets for "
                f"single distances. Received: num_buckets={num_buckets}, "
                f"max_distance={max_distance}"
            )
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.initializer = keras.initializers.get(initializer)
        self.seed = seed

    def build(self, query_shape: Shape, key_shape: Shape | None = None) -> None:
        self.table = self.add_weight(
            name="table",
            shape=(self.num_buckets, self.num_heads),
            dtype="float32",
            initializer=seeded_initializer(self.initializer, self.seed),
            autocast=False,
        )
        self.built = True

    def call(self, query: Tensor, key: Tensor | None = None, offset: Tensor | int = 0) -> Tensor:
        # (T, S, H) -> (H, T, S)
        found = ops.take(self.table, self.buckets(query, key, offset), axis=0)
        return ops.transpose(found, (2, 0, 1))

    def buckets(self, query: Tensor, key: Tensor | None = None, offset: Tensor | int = 0) -> Tensor:
        """The bucket of each query-key pair, int32 `(T, S)`."""
        ahead = -distances(query, key, offset)
        buckets = self.num_buckets
        start = 0
        if self.bidirectional:
            buckets //= 2
            start = ops.cast(ahead > 0, "int32") * buckets
            distance = ops.abs(ahead)
        else:
            distance = ops.maximum(-ahead, 0)
        exact = buckets // 2
        far = ops.cast(ops.maximum(distance, exact), "float32") / exact
        shared = ops.log(far) * ((buckets - exact) / math.log(self.max_distance / exact))
        shared = ops.minimum(exact + ops.cast(shared, "int32"), buckets - 1)
        return start + ops.where(distance < exact, distance, shared)

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape | None = None) -> Shape:
        key_shape = query_shape if key_shape is None else key_shape
        return self.num_heads, query_shape[-2], key_shape[-2]

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "initializer": keras.initializers.serialize(self.initializer),
            "seed": self.seed,
        }
