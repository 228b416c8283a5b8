"""Attention pooling of two sentences by each other."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.scores.bilinear_score import BilinearScore
from keras_attn.ops import masked_softmax
from keras_attn.ops.maxima import safe_max
from keras_attn.ops.weights import weighted_average
from keras_attn.types import Shape, Tensor


class AttentivePooling(keras.layers.Layer):
    """Reduces each of two sentences to a vector, by attention to what matches the other sentence.

    With `G = tanh(X U Y^T)`, the sentence X has the weights `softmax_i(max_j G_ij)`, and Y has
    `softmax_j(max_i G_ij)`.

    Args:
        seed: Integer seed of the initial weights.

    Call arguments:
        first, second: `(B, T, D)` and `(B, S, D)`.
        first_mask, second_mask: Boolean `(B, T)` and `(B, S)`, True for real tokens.
        return_attention_scores: Whether to also return the weights.

    Returns:
        Two vectors, float32 `(B, D)`; with `return_attention_scores` then the weights `(B, T)` and
        `(B, S)`. If the other sentence is empty, the weights are equal.

    Reference:
        dos Santos et al., Attentive Pooling Networks, 2016, section 4.
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = BilinearScore(seed=seed, dtype=self.dtype_policy, name="score")

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.score.build(first_shape, second_shape)
        self.built = True

    def call(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor,
        second_mask: Tensor,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        scores = ops.tanh(self.score(first, second))
        # -1 is the lower bound of the scores. Finite, so that equal weights remain if all are it.
        along_second = ops.where(second_mask[:, None], scores, -1.0)
        along_first = ops.where(first_mask[:, :, None], scores, -1.0)
        weights = (
            masked_softmax(safe_max(along_second, axis=2, initial=-1.0), first_mask),
            masked_softmax(safe_max(along_first, axis=1, initial=-1.0), second_mask),
        )
        # (B, 1, T) x (B, T, D) -> (B, D)
        vectors = tuple(
            weighted_average(one[:, None], ops.cast(x, "float32"))[:, 0]
            for one, x in zip(weights, (first, second), strict=True)
        )
        return (*vectors, *weights) if return_attention_scores else vectors
