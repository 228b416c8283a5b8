"""Luong's local attention."""

import math
from typing import Any

import keras
from keras import ops

from keras_attn.layers.alignment import Alignment, unmasked_positions
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.scores.by_name import build_score, make_score
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.ops.masks import combine_masks
from keras_attn.ops.weights import joint_mask, masked_softmax, weighted_average
from keras_attn.types import Initializer, LayerLike, Shape, Tensor

RENORMALIZE = "none", "weights", "scores"


@keras.saving.register_keras_serializable(package="keras_attn")
class LocalAttention(CheckedLayer):
    """Attention to a window of keys around the position of the query or a predicted position.

    `a_t(s) = softmax_s(score(q_t, k_s)) exp(-(s - p_t)^2 / (2 sigma^2))` over the `s` in
    `[floor(p_t) - window, floor(p_t) + window]`. Monotonic alignment: `p_t = t`, without the
    Gaussian. Predictive alignment: `p_t = S sigmoid(v^T tanh(W q_t))`, at most S - 1, with S the
    number of unmasked keys of the row; its weights sum to less than 1. No gradient passes through
    the edges of the window; v and W get theirs through the Gaussian.

    Positions are counted among the unmasked keys or queries, so padding on either side has no
    effect. The layer computes the logits of all keys; `WindowAttention` does not.

    Args:
        window: Number of keys on either side, D in the paper: an integer, or infinity.
        alignment: `"monotonic"` or `"predictive"`.
        score: See `Attention`.
        units: Hidden units of the scores `"concat"` and `"additive"`.
        sigma: Standard deviation of the Gaussian of predictive alignment; defaults to `window / 2`.
        renormalize: For predictive alignment. `"none"`: as in the paper; `"weights"`: the weights
            are divided by their sum; `"scores"`: the Gaussian multiplies the scores before the
            softmax, as in the authors' later code.
        dropout: Dropout rate of the attention weights.
        kernel_initializer: Initializer of W, `(Q, Q)`, and of v.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        query: `(B, T, Q)`.
        value: `(B, S, V)`.
        key: `(B, S, K)`; defaults to `value`.
        query_positions: Integers `(B, T)` or `(T,)`, the t of monotonic alignment when decoding;
            defaults to the positions among the unmasked queries. Positions past the last key are
            clipped to it.

    The other call arguments match `Attention`; a cache is not supported.

    Returns:
        Output `(B, T, V)`; with `return_attention_scores` then the weights, `(B, T, S)`.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, or a mask is float.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine
        Translation, 2015, section 3.2, eq. 9-10.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import LocalAttention
        >>> query, value = np.zeros((1, 4, 1)), np.array([[[1.0], [2.0], [4.0], [8.0]]])
        >>> output = LocalAttention(1, score="dot")(query, value)
        >>> print(ops.convert_to_numpy(output)[0, :, 0].round(3))
        [1.5   2.333 4.667 6.   ]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        window: float = 10,
        alignment: str = "monotonic",
        score: str | LayerLike = "bilinear",
        units: int | None = None,
        sigma: float | None = None,
        renormalize: str = "none",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if window != math.inf:
            require_sizes(low=0, window=window)
        if renormalize not in RENORMALIZE:
            raise ValueError(
                f"LocalAttention: renormalize must be one of {', '.join(RENORMALIZE)}. "
                f"Received: renormalize={renormalize!r}"
            )
        score_seed, *kernel_seeds, self._dropout_seed = split_seed(seed, 4)
        self._alignment = Alignment(
            "LocalAttention",
            alignment,
            sigma,
            window / 2,
            kernel_initializer,
            kernel_seeds,
            window=window,
        )
        if alignment == "monotonic":
            reject_unused('alignment="predictive"', renormalize=(renormalize, "none"))
        require_rates(dropout=dropout)
        self.score = make_score(score, units, score_seed, self.dtype_policy)
        self._score_name = score if isinstance(score, str) else None
        self.window = window
        self.alignment = alignment
        self.units = units
        self.sigma = sigma
        self.renormalize = renormalize
        self.dropout = dropout
        self.kernel_initializer = self._alignment.kernel_initializer
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self.require_axes(query=query_shape, value=value_shape, key=key_shape)
        build_score(self.score, query_shape, value_shape if key_shape is None else key_shape)
        self._alignment.build(self, query_shape[-1])
        self.seed_generator = dropout_generator(self.dropout, self._dropout_seed, "dropout")
        self.built = True

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
        query_positions: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        key = value if key is None else key
        mask = joint_mask(
            query, key, query_mask, value_mask, attention_mask, "end" if use_causal_mask else None
        )
        places, last = unmasked_positions(ops.shape(key)[1], value_mask)
        centers = self._alignment.centers(query, last, query_mask, query_positions)
        # (B, T, 1) and (B or 1, 1, S) -> (B, T, S)
        near = ops.abs(places - ops.floor(centers)) <= self.window
        mask = combine_masks(mask, near)
        logits = ops.cast(self.score(query, key), "float32")
        if self.alignment == "monotonic":
            weights = masked_softmax(logits, mask)
        else:
            weights = self._gaussian(logits, mask, places - centers)
        output = weighted_average(
            weights, value, self.dropout if training else 0.0, self.seed_generator
        )
        return (output, ops.cast(weights, query.dtype)) if return_attention_scores else output

    def positions(self, query: Tensor, value: Tensor, value_mask: Tensor | None = None) -> Tensor:
        """Predicts the position p of each query, float32 `(B, T)`."""
        _, last = unmasked_positions(ops.shape(value)[1], value_mask)
        return self._alignment.predict(query, last)[..., 0]

    def _gaussian(self, logits, mask, distances):
        exponent = self._alignment.exponent(distances)
        if self.renormalize == "weights":  # a product of exponentials, divided by its sum
            return masked_softmax(logits + exponent, mask)
        if self.renormalize == "scores":
            return masked_softmax(logits * ops.exp(exponent), mask)
        return masked_softmax(logits, mask) * ops.exp(exponent)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "window": self.window,
            "alignment": self.alignment,
            "score": self._score_name or layer_config(self.score, self),
            "units": self.units,
            "sigma": self.sigma,
            "renormalize": self.renormalize,
            "dropout": self.dropout,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
