"""Two-stream attention of XLNet."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.heads import Heads
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.products import linear, upcast_float16
from keras_attn.ops.relative import relative_position_vectors, relative_shift
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TwoStreamAttention(CheckedLayer):
    """Relative self-attention with a second stream of queries that do not see their own token.

    The content stream h and the query stream g share all weights; keys and values are those of the
    content stream and the preceding memory. The score of a query at position i and a key at
    position j is `((q + u)^T k_j + (q + v)^T W_R r_{i-j} + (q + w)^T s_ij) / sqrt(key_dim)`. r is
    the sinusoidal encoding of the distance; s_ij is one of two learned vectors, for positions in
    the same segment and in different segments; u, v and w are learned per head.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries, keys and values in a head.
        max_distance: Distances are clipped to this value; None: no limit.
        dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of the kernels and segment vectors.
        bias_initializer: Initializer of u, v and w.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        content: `(B, T, D)`.
        query: `(B, K, D)`, or None to omit the query stream.
        query_positions: Integers `(B, K)`, the positions of the queries, from 0.
        segment_ids: Integers `(B, T)`; the memory is in segment 0. If None, there is a single
            segment and the segment term is omitted.
        content_mask: Boolean or integer mask that broadcasts to `(B, T, M + T)`; True where the
            content stream may attend to a position, the memory first.
        query_mask: The same for the query stream, `(B, K, M + T)`.
        memory: `(B, M, D)`, inputs of this layer that precede these ones; it gets no gradient.
        reversed_rows: Boolean or integer `(B,)`, True for rows that contain a reversed text;
            defaults to none.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        training: Whether to apply dropout.
        position_vectors: `(N, D)`, or per row `(B, N, D)`, with N = M + 2 T - 1: the result of
            `keras_attn.ops.relative.relative_position_vectors`, which several layers may share,
            possibly after dropout. It replaces `max_distance` and `reversed_rows`. If None, the
            vectors are computed.

    Returns:
        `(B, T, D)` of the content stream; with a query then `(B, K, D)`; with
        `return_attention_scores` then the weights `(B, H, T, M + T)`, and with a query
        `(B, H, K, M + T)`.

    Raises:
        ValueError: If an argument is out of range, a mask is float, or only one of query and
            `query_positions` is given.

    Reference:
        Yang et al., XLNet, 2019, sections 2.3 to 2.5; released code: zihangdai/xlnet.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import TwoStreamAttention
        >>> layer = TwoStreamAttention(num_heads=1, key_dim=4, kernel_initializer="zeros")
        >>> *_, weights = layer(np.ones((1, 5, 8)), np.ones((1, 2, 8)), np.array([[1, 4]]),
        ...                     query_mask=np.array([[[1, 0, 1, 1, 1], [1, 1, 1, 1, 0]]]),
        ...                     return_attention_scores=True)
        >>> print(ops.convert_to_numpy(weights)[0, 0])  # query stream: none sees itself
        [[0.25 0.   0.25 0.25 0.25]
         [0.25 0.25 0.25 0.25 0.  ]]
    """

    AXES = {
        "content": "BTD",
        "query": "BKD",
        "query_positions": "BK",
        "segment_ids": "BT",
        "memory": "BMD",
        "reversed_rows": "B",
    }
    MASKED_INPUTS = {}  # the masks cover pairs of positions

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_distance: int | None = None,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(optional=True, max_distance=max_distance)
        require_rates(dropout=dropout)
        self.heads = Heads(
            num_heads,
            key_dim,
            use_bias=False,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            seed=seed,
        )
        self.max_distance = max_distance
        self.dropout = dropout

    def build(self, content_shape: Shape, query_shape: Shape | None = None) -> None:
        self.heads.build(self, content_shape)
        heads, depth = self.heads.num_heads, self.heads.key_dim
        position_seed, segment_seed = split_seed(self.heads.seed, 2, stream=1)
        self.position_kernel = self.add_weight(
            name="position_kernel",
            shape=(content_shape[-1], heads * depth),
            initializer=seeded_initializer(self.heads.kernel_initializer, position_seed),
        )
        self.position_kernel.projection_dims = (heads * depth,)  # as the kernels of `Heads`
        self.segment_table = self.add_weight(
            name="segment_table",
            shape=(2, heads, depth),
            initializer=seeded_initializer(self.heads.kernel_initializer, segment_seed),
        )
        self.content_bias, self.position_bias, self.segment_bias = (
            self.add_weight(
                name=name,
                shape=(heads, depth),
                initializer=seeded_initializer(self.heads.bias_initializer, seed),
            )
            for name, seed in zip(
                ("content_bias", "position_bias", "segment_bias"),
                split_seed(self.heads.seed, 3, stream=3),
                strict=True,
            )
        )
        self.seed_generators = [
            dropout_generator(self.dropout, seed, name)
            for seed, name in zip(
                split_seed(self.heads.seed, 7)[-2:],
                ("content_dropout", "query_dropout"),
                strict=True,
            )
        ]
        self.built = True

    def call(
        self,
        content: Tensor,
        query: Tensor | None = None,
        query_positions: Tensor | None = None,
        segment_ids: Tensor | None = None,
        content_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        memory: Tensor | None = None,
        reversed_rows: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        position_vectors: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        if (query is None) != (query_positions is None):
            raise ValueError(
                "TwoStreamAttention: query and query_positions must be given "
                f"together. Received: query={query}, "
                f"query_positions={query_positions}"
            )
        if position_vectors is not None and reversed_rows is not None:
            raise ValueError(
                "TwoStreamAttention: reversed_rows must be omitted if "
                "position_vectors are given, which include the direction. "
                "Received: both"
            )
        if content.shape[1] == 0:  # there are no pairs
            return _flatten_results(
                self._empty_results(content, query, memory), return_attention_scores
            )
        heads = self.heads.project_with_memory(content, memory)
        keys = ops.shape(heads["key"])[2]
        if position_vectors is None:
            position_vectors = relative_position_vectors(
                ops.shape(content)[1], keys, content.shape[-1], self.max_distance, reversed_rows
            )
        tables = self._tables(ops.cast(position_vectors, content.dtype))
        found = [
            self._attend(
                heads["query"],
                heads,
                tables,
                relative_shift,
                self._different_segments(segment_ids, keys),
                as_mask(content_mask, "content_mask"),
                self.seed_generators[0],
                training,
            )
        ]
        if query is not None:
            places = ops.cast(query_positions, "int32")
            own = self.heads.project(query=query)["query"]
            found.append(
                self._attend(
                    own,
                    heads,
                    tables,
                    self._gather_by_position(places, content, keys),
                    self._different_segments(segment_ids, keys, places),
                    as_mask(query_mask, "query_mask"),
                    self.seed_generators[1],
                    training,
                )
            )
        return _flatten_results(found, return_attention_scores)

    def _empty_results(self, content, query, memory):
        seen = 0 if memory is None else memory.shape[1]
        for x in (content,) if query is None else (content, query):
            shape = ops.shape(x)[0], self.heads.num_heads, ops.shape(x)[1], seen
            yield ops.zeros_like(x), ops.zeros(shape, x.dtype)

    def _tables(self, vectors):
        """`W_R r` of each distance, `(H, K, N)`; for position vectors per row `(B, H, K, N)`."""
        tables = linear(vectors, ops.cast(self.position_kernel, vectors.dtype))
        tables = ops.reshape(
            tables, (*ops.shape(vectors)[:-1], self.heads.num_heads, self.heads.key_dim)
        )
        last = len(tables.shape)
        return ops.transpose(tables, (*range(last - 3), last - 2, last - 1, last - 3))

    def _different_segments(self, segment_ids, keys, places=None):
        """Whether query and key are in different segments, float `(B, 1, T, M + T)`."""
        if segment_ids is None:
            return None
        queries = ops.cast(segment_ids, "int32")
        seen = ops.pad(queries, [(0, 0), (keys - ops.shape(queries)[1], 0)])
        if places is not None:
            queries = ops.take_along_axis(queries, places, axis=1)
        return ops.cast(queries[:, None, :, None] != seen[:, None, None, :], "float32")

    def _gather_by_position(self, places, content, keys):
        """`relative_shift` for queries at the given positions."""
        # Column r of the tables has the distance S - 1 - r, and position i is at i + S - T.
        last = ops.shape(content)[1] - 1
        columns = (last - places)[:, None, :, None] + ops.arange(keys, dtype="int32")
        heads = self.heads.num_heads

        def shift(x):
            return ops.take_along_axis(x, ops.repeat(columns, heads, axis=1), axis=-1)

        return shift

    def _attend(self, query, heads, tables, shift, different, mask, seed_generator, training):
        scale = ops.cast(self.heads.key_dim**-0.5, query.dtype)
        # A single use of the query: TensorFlow may sum three gradients in a different order each
        # time.
        biases = ops.stack(
            [
                ops.cast(bias, query.dtype)[:, None]
                for bias in (self.content_bias, self.position_bias, self.segment_bias)
            ]
        )
        by_content, by_place, by_segment = ops.unstack((query + biases[:, None]) * scale, num=3)
        logits = ops.matmul(*upcast_float16(by_content, ops.swapaxes(heads["key"], -1, -2)))
        logits = ops.cast(logits, "float32")
        logits = logits + ops.cast(shift(_matmul_per_head(by_place, tables)), "float32")
        if different is not None:
            table = ops.transpose(ops.cast(self.segment_table, query.dtype), (1, 2, 0))
            same, other = ops.split(
                ops.cast(_matmul_per_head(by_segment, table), "float32"), 2, axis=-1
            )
            logits = logits + same + different * (other - same)
        if mask is not None and len(mask.shape) == 3:
            mask = mask[:, None]
        weights = masked_softmax(logits, mask)
        dropped = drop(weights, self.dropout, seed_generator, training)
        output = self.heads.output(weighted_average(dropped, heads["value"]))
        return output, ops.cast(weights, output.dtype)

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        config = self.heads.self_attention_config()
        config.pop("use_bias")
        return {
            **super().get_config(),
            **config,
            "max_distance": self.max_distance,
            "dropout": self.dropout,
        }


def _flatten_results(found, with_weights):
    """The outputs, then the weights if requested; a single result without a tuple."""
    outputs, weights = zip(*found, strict=True)
    results = (*outputs, *weights) if with_weights else outputs
    return results if len(results) > 1 else results[0]


def _matmul_per_head(x, matrices):
    """`(B, H, T, K) x (H, K, N)`, or `x (B, H, K, N)`."""
    x, matrices = upcast_float16(x, matrices)
    if len(matrices.shape) == 3 and matrices.shape[0] == 1:
        return linear(x, matrices[0])
    return ops.matmul(x, matrices)
