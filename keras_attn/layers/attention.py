"""Soft attention with a configurable score function."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.cache import check_cache, ignore_implicit_value_mask, write_cache
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.scores.by_name import build_score, make_score
from keras_attn.layers.scores.dot_score import DotScore
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.ops.arguments import require_lengths, require_rates
from keras_attn.ops.attention import scaled_dot_product_attention
from keras_attn.ops.masks import causal_mask, combine_masks
from keras_attn.ops.weights import joint_mask, masked_softmax, weighted_average
from keras_attn.types import LayerLike, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class Attention(CheckedLayer):
    """Weighted average of the values; the weights are the softmax of query-key scores.

    `output_i = sum_j a_ij v_j`, `a_i = softmax_j(score(q_i, k_j))`. The softmax is computed in
    float32. A query without any visible key gets weights 0 and output 0.

    Args:
        score: `"dot"`, `"scaled_dot"`, `"bilinear"` (also `"general"`), `"cosine"`, `"concat"` or
            `"additive"`; or a layer called with (query, key) that returns `(B, T, S)`, such as
            `LocationScore(40)`.
        units: Hidden units of the scores `"concat"` and `"additive"`; the depth of the key if None.
            Unsupported for other scores.
        dropout: Dropout rate of the attention weights.
        causal_align: Alignment of the causal mask: with `"end"` query i sees keys up to
            `i + S - T`, with `"start"` keys up to i.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        query: `(B, T, Q)`.
        value: `(B, S, V)`.
        key: `(B, S, K)`; defaults to `value`.
        query_mask: Boolean or integer `(B, T)`; masked queries attend to nothing.
        value_mask: Boolean or integer `(B, S)`; masked keys are not attended to.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`, True where a query
            may attend to a key.
        use_causal_mask: Whether to mask the keys after each query.
        return_attention_scores: Whether to also return the attention weights, before dropout.
        cache: Keys and values of earlier positions, as created by `make_cache`, or None. The T new
            ones are written at `cache_index`; query i attends to positions up to `cache_index + i`.
            S is then the length of the cache in every mask.
        cache_index: Integer scalar, the position of the first query.
        training: Whether to apply dropout.

    Masks that Keras attaches to query and value are used where these arguments are None. With a
    cache, the implicit mask of the value is ignored.

    Returns:
        Output `(B, T, V)`; then, if requested, the weights `(B, T, S)`; then the updated cache if
        one was given.

    Raises:
        ValueError: If an argument is out of range, an input has not three axes, value and key
            differ in length, a mask is float, or only one of `cache` and `cache_index` is given.

    Reference:
        Bahdanau et al., Neural Machine Translation by Jointly Learning to Align
        and Translate, 2015, eq. 5-6.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import Attention
        >>> key = np.array([[[9.0, 0.0], [0.0, 9.0], [0.0, 9.0]]])
        >>> value, query = np.array([[[1.0], [10.0], [20.0]]]), np.array([[[0.0, 9.0]]])
        >>> output, weights = Attention("dot")(query, value, key, return_attention_scores=True)
        >>> print(ops.convert_to_numpy(output), ops.convert_to_numpy(weights).round(3))
        [[[15.]]] [[[0.  0.5 0.5]]]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        score: str | LayerLike = "scaled_dot",
        units: int | None = None,
        dropout: float = 0.0,
        causal_align: str = "end",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_rates(dropout=dropout)
        if causal_align not in ("end", "start"):
            raise ValueError(
                "Attention: causal_align must be 'end' or 'start'. "
                f"Received: causal_align={causal_align!r}"
            )
        score_seed, self._dropout_seed = split_seed(seed, 2)
        self.score = make_score(score, units, score_seed, self.dtype_policy)
        self._score_name = score if isinstance(score, str) else None
        self.units = units
        self.dropout = dropout
        self.causal_align = causal_align
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self.require_axes(query=query_shape, value=value_shape, key=key_shape)
        build_score(self.score, query_shape, value_shape if key_shape is None else key_shape)
        self.seed_generator = dropout_generator(self.dropout, self._dropout_seed, "dropout")
        self.built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **ignore_implicit_value_mask(args, kwargs))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        cache: tuple[Tensor, Tensor] | None = None,
        cache_index: Tensor | int | None = None,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        check_cache(cache, cache_index)
        key = value if key is None else key
        visible = None
        if cache is not None:
            (key, value), cache = write_cache(cache, cache_index, (key, value), axis=1)
            visible = causal_mask(
                ops.shape(query)[1], ops.shape(key)[1], align="start", offset=cache_index
            )
        mask = joint_mask(
            query,
            key,
            query_mask,
            None if value_mask is True else value_mask,
            attention_mask,
            self.causal_align if use_causal_mask and cache is None else None,
        )
        results = self._attend(
            query,
            key,
            value,
            combine_masks(mask, visible),
            self.dropout if training else 0.0,
            return_attention_scores,
        )
        results = [*results, *([] if cache is None else [cache])]
        return tuple(results) if len(results) > 1 else results[0]

    def _attend(self, query, key, value, mask, dropout, return_scores):
        dtype = query.dtype
        if type(self.score) is not DotScore:  # a subclass may compute other scores
            weights = masked_softmax(self.score(query, key), mask)
            found = weighted_average(weights, value, dropout, self.seed_generator), weights
            return [ops.cast(x, dtype) for x in found[: 1 + return_scores]]
        if keras.backend.standardize_dtype(dtype) == "float16":  # products may exceed 65,504
            query, key, value = (ops.cast(x, "float32") for x in (query, key, value))
        found = scaled_dot_product_attention(  # block by block for long sequences
            query,
            key,
            value,
            mask=mask,
            scale=self.score.scale,
            dropout=dropout,
            seed=self.seed_generator,
            return_scores=return_scores,
        )
        return [ops.cast(x, dtype) for x in (found if return_scores else [found])]

    def make_cache(
        self,
        batch_size: int,
        length: int,
        key_dim: int,
        value_dim: int | None = None,
        dtype: str | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Creates an empty cache for decoding up to `length` positions.

        Returns:
            (keys, values): zeros `(B, length, key_dim)` and `(B, length, value_dim)`; `value_dim`
            defaults to `key_dim`.
        """
        require_lengths(batch_size=batch_size, length=length)
        return tuple(
            ops.zeros((batch_size, length, depth), dtype or self.compute_dtype)
            for depth in (key_dim, key_dim if value_dim is None else value_dim)
        )

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score": self._score_name or layer_config(self.score, self),
            "units": self.units,
            "dropout": self.dropout,
            "causal_align": self.causal_align,
            "seed": self.seed,
        }
