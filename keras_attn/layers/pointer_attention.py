"""Pointer network attention, whose output is a distribution over positions."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.ops.masks import MASKED
from keras_attn.ops.weights import joint_mask, masked_softmax
from keras_attn.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class PointerAttention(CheckedLayer):
    """Pointer network attention: logits and probabilities of pointing at each input position.

    `u_ij = v^T tanh(W d_i + U e_j)`, `p(j | i) = softmax_j(u_ij)`.

    Args:
        units: Hidden units; the depth of the value if None.
        kernel_initializer: Initializer of W, U and v.
        seed: Integer seed of the initial weights.

    Call arguments:
        query: d, `(B, T, Q)`, the decoder states.
        value: e, `(B, S, V)`, the inputs that can be pointed at.
        query_mask: Boolean or integer `(B, T)`; masked queries point at nothing.
        value_mask: Boolean or integer `(B, S)`; masked values are not pointed at.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`, True where a query
            may point at a value, for example at those not chosen before.
        return_attention_scores: Whether to also return the probabilities.

    Returns:
        Logits, float32 `(B, T, S)`, -1e30 where masked; with `return_attention_scores` then p,
        float32 `(B, T, S)`, 0 where masked, also in fully masked rows.

    Raises:
        ValueError: If `units` is not positive, an input does not have three axes, or a mask is
            float.

    Reference:
        Vinyals et al., Pointer Networks, 2015, section 2.3, eq. 3.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import PointerAttention
        >>> layer = PointerAttention(2, kernel_initializer="ones")
        >>> query, value = np.array([[[0.0]]]), np.array([[[0.0], [9.0], [9.0]]])
        >>> mask = np.array([[1, 1, 0]])
        >>> _, p = layer(query, value, value_mask=mask, return_attention_scores=True)
        >>> print(ops.convert_to_numpy(p).round(3))
        [[[0.119 0.881 0.   ]]]
    """

    AXES = SEQUENCES

    def __init__(
        self,
        units: int | None = None,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = AdditiveScore(
            units,
            kernel_initializer=kernel_initializer,
            seed=seed,
            dtype=self.dtype_policy,
            name="score",
        )
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape) -> None:
        self.require_axes(query=query_shape, value=value_shape)
        self.score.build(query_shape, value_shape)
        self.built = True

    def call(
        self,
        query: Tensor,
        value: Tensor,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, ...]:
        mask = joint_mask(query, value, query_mask, value_mask, attention_mask)
        logits = ops.cast(self.score(query, value), "float32")
        if mask is not None:
            logits = ops.where(mask, logits, MASKED)
        return (logits, masked_softmax(logits, mask)) if return_attention_scores else logits

    def compute_output_shape(self, query_shape: Shape, value_shape: Shape) -> Shape:
        return (*query_shape[:-1], value_shape[-2])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        score = self.score.get_config()
        return {
            **super().get_config(),
            **{name: score[name] for name in ("units", "kernel_initializer", "seed")},
        }
