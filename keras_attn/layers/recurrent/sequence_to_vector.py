"""Reduction of a sequence to a vector (many-to-one)."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.masks import MASKED, row_mask
from keras_attn.ops.maxima import safe_max
from keras_attn.types import Nest, Shape, Tensor

REDUCTIONS = "last", "mean", "max", "attention"


@keras.saving.register_keras_serializable(package="keras_attn")
class SequenceToVector(CheckedLayer):
    """Reduces the unmasked steps of a sequence to a vector (many-to-one).

    - `"last"`: the last unmasked step;
    - `"mean"`, `"max"`: the element-wise mean or maximum;
    - `"attention"`: `AttentionPooling`.

    The output of a fully masked row is 0. Padding may be on either side.

    Args:
        reduce: `"last"`, `"mean"`, `"max"` or `"attention"`.
        units: Hidden units of `"attention"`; the depth of the inputs if None.
        seed: Integer seed of the initial weights of `"attention"`.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: Boolean or integer `(B, T)`, True for real steps; defaults to the Keras mask.
        lengths: Integers `(B,)`: the number of real steps of each row, counted from its first step.

    Returns:
        `(B, D)`.

    Raises:
        ValueError: If `reduce` is unknown, `units` is unused, a mask is float, or `lengths` is not
            of shape `(B,)`.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import SequenceToVector
        >>> x, mask = np.array([[[1.0], [2.0], [9.0]]]), np.array([[1, 1, 0]])
        >>> [float(SequenceToVector(reduce)(x, mask)[0, 0]) for reduce in ("last", "mean", "max")]
        [2.0, 1.5, 2.0]
    """

    AXES = {"inputs": "BTD"}

    def __init__(
        self, reduce: str = "last", units: int | None = None, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if reduce not in REDUCTIONS:
            raise ValueError(
                f"SequenceToVector: reduce must be one of {', '.join(REDUCTIONS)}. "
                f"Received: reduce={reduce!r}"
            )
        if reduce != "attention":
            reject_unused('reduce="attention"', units=(units, None))
        self.reduce = reduce
        self.units = units
        self.seed = seed
        self.pooling = None
        if reduce == "attention":
            self.pooling = AttentionPooling(
                units, seed=seed, dtype=self.dtype_policy, name="pooling"
            )
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        if self.pooling is not None:
            self.pooling.build(input_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        inputs_mask: Tensor | None = None,
    ) -> Tensor:
        length = ops.shape(inputs)[1]
        # Keras passes its implicit mask as `mask` if the inputs are the only tensor of the call,
        # else as `inputs_mask`.
        mask = row_mask(inputs_mask if mask is None else mask, lengths, length)
        if self.pooling is not None:
            return self.pooling(inputs, mask=mask)
        if isinstance(length, int) and not length:  # an empty axis has no last entry and no maximum
            return ops.sum(inputs, axis=1)
        if mask is None:
            mask = ops.ones((1, length), "bool")
        real = ops.cast(mask, "float32")[..., None]
        if self.reduce == "last":
            # Number of unmasked steps from each step on: 1 at the last one.
            left = ops.flip(ops.cumsum(ops.flip(ops.cast(mask, "int32"), 1), axis=1), 1)
            last = ops.logical_and(mask, left == 1)
            # A single step is selected, so infinities in the others have no effect.
            return ops.sum(ops.where(last[..., None], inputs, 0), axis=1)
        x = ops.cast(inputs, "float32")
        if self.reduce == "mean":
            found = ops.sum(ops.where(real > 0, x, 0.0), axis=1) / ops.maximum(
                ops.sum(real, axis=1), 1.0
            )
        else:
            found = safe_max(ops.where(real > 0, x, MASKED), axis=1)
            found = ops.where(ops.any(mask, axis=1)[:, None], found, 0.0)
        return ops.cast(found, inputs.dtype)

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], input_shape[-1]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "reduce": self.reduce,
            "units": self.units,
            "seed": self.seed,
        }
