"""A vector from a sequence."""

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
    """Sums up the steps of a sequence that count (many-to-one).

    - `"last"`: the last of them;
    - `"mean"`, `"max"`: of each number;
    - `"attention"`: `AttentionPooling`.

    A row with no step gives 0. Padding may be on either side.

    Args:
        reduce: One of these.
        units: Hidden units of `"attention"`; the depth of the inputs if None.
        seed: Integer for its initial weights.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: Boolean or integer `(B, T)`, True at steps that count; Keras's own if None.
        lengths: Integers `(B,)`, the number of steps that count, from the first.

    Returns:
        `(B, D)`.

    Raises:
        ValueError: If `reduce` is unknown, units are given in vain, a mask is float or `lengths`
            are not `(B,)`.

    Examples:
        >>> import keras, numpy as np
        >>> from keras_attn.layers import SequenceToVector
        >>> x, mask = np.array([[[1.0], [2.0], [9.0]]]), np.array([[1, 1, 0]])
        >>> [float(SequenceToVector(reduce)(x, mask)[0, 0]) for reduce in ("last", "mean", "max")]
        [2.0, 1.5, 2.0]
    """

    AXES = {"inputs": "BTD"}

    def __init__(self, reduce: str = "last", units: int | None = None, seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if reduce not in REDUCTIONS:
            raise ValueError(
                f"reduce must be one of {', '.join(REDUCTIONS)}. Received: reduce={reduce!r}")
        if reduce != "attention":
            reject_unused('reduce="attention"', units=(units, None))
        self.reduce = reduce
        self.units = units
        self.seed = seed
        self.pooling = None
        if reduce == "attention":
            self.pooling = AttentionPooling(units, seed=seed, dtype=self.dtype_policy,
                                            name="pooling")
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        if self.pooling is not None:
            self.pooling.build(input_shape)
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None,
             inputs_mask: Tensor | None = None) -> Tensor:
        length = ops.shape(inputs)[1]
        # Keras calls its own mask `mask` where inputs are the one tensor, else `inputs_mask`.
        mask = row_mask(inputs_mask if mask is None else mask, lengths, length)
        if self.pooling is not None:
            return self.pooling(inputs, mask=mask)
        if isinstance(length, int) and not length:  # of nothing there is no last, no largest
            return ops.sum(inputs, axis=1)
        if mask is None:
            mask = ops.ones((1, length), "bool")
        real = ops.cast(mask, "float32")[..., None]
        if self.reduce == "last":
            # Steps that count, from each on: 1 at the last of them.
            left = ops.flip(ops.cumsum(ops.flip(ops.cast(mask, "int32"), 1), axis=1), 1)
            last = ops.logical_and(mask, left == 1)
            # One step has weight 1: what the others hold is not read.
            return ops.sum(ops.where(last[..., None], inputs, 0), axis=1)
        x = ops.cast(inputs, "float32")
        if self.reduce == "mean":
            found = ops.sum(ops.where(real > 0, x, 0.0), axis=1) / ops.maximum(
                ops.sum(real, axis=1), 1.0)
        else:
            found = safe_max(ops.where(real > 0, x, MASKED), axis=1)
            found = ops.where(ops.any(mask, axis=1)[:, None], found, 0.0)
        return ops.cast(found, inputs.dtype)

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], input_shape[-1]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reduce": self.reduce, "units": self.units,
                "seed": self.seed}
