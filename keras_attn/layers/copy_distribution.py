"""Output distribution of pointer-generator networks."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class CopyDistribution(CheckedLayer):
    """Mixes the vocabulary distribution with words copied from the source by attention.

    `P(w) = p_gen P_vocabulary(w) + (1 - p_gen) sum_{i: w_i = w} a_i`: the attention to all
    occurrences of a word is summed. Out-of-vocabulary words of a source have the ids V to
    `V + num_oov - 1`, assigned per source. P sums to 1 if both distributions do, and to `p_gen`
    where the source is empty.

    Everything is computed in float32, whatever the dtype policy: half precision loses
    probabilities.

    Args:
        num_oov: Maximum number of out-of-vocabulary words in a source.

    Call arguments:
        vocabulary_probabilities: `(B, T, V)`.
        attention: a, `(B, T, S)`.
        source_ids: Integers `(B, S)`, below `V + num_oov`; others are ignored.
        generation_probability: p_gen, `(B, T, 1)`.

    Returns:
        P, float32 `(B, T, V + num_oov)`.

    Raises:
        ValueError: If `num_oov` is not an integer of at least 0.

    Reference:
        See et al., Get To The Point: Summarization with Pointer-Generator Networks,
        2017, eq. 9.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import CopyDistribution
        >>> probabilities = CopyDistribution(num_oov=1)(
        ...     np.array([[[0.25, 0.75]]]), np.array([[[0.5, 0.25, 0.25]]]), np.array([[2, 1, 2]]),
        ...     np.array([[[0.5]]]))
        >>> print(ops.convert_to_numpy(probabilities))
        [[[0.125 0.5   0.375]]]
    """

    AXES = {
        "vocabulary_probabilities": "BTV",
        "attention": "BTS",
        "source_ids": "BS",
        "generation_probability": "B...",
    }

    def __init__(self, num_oov: int = 0, **kwargs: Any) -> None:
        super().__init__(**{"autocast": False, **kwargs})
        require_sizes(low=0, num_oov=num_oov)
        self.num_oov = num_oov

    def build(
        self,
        vocabulary_probabilities_shape: Shape,
        attention_shape: Shape,
        source_ids_shape: Shape,
        generation_probability_shape: Shape,
    ) -> None:
        self.built = True

    def call(
        self,
        vocabulary_probabilities: Tensor,
        attention: Tensor,
        source_ids: Tensor,
        generation_probability: Tensor,
    ) -> Tensor:
        generate = ops.cast(generation_probability, "float32")
        generated = generate * ops.cast(vocabulary_probabilities, "float32")
        generated = ops.pad(generated, ((0, 0), (0, 0), (0, self.num_oov)))
        copied = (1.0 - generate) * ops.cast(attention, "float32")
        return generated + _scatter_add(copied, source_ids, ops.shape(generated))

    def compute_output_shape(
        self,
        vocabulary_probabilities_shape: Shape,
        attention_shape: Shape,
        source_ids_shape: Shape,
        generation_probability_shape: Shape,
    ) -> Shape:
        *outer, size = vocabulary_probabilities_shape
        return (*outer, size + self.num_oov)

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_oov": self.num_oov}


def _scatter_add(values, ids, shape):
    """Adds values `(B, T, S)` at the ids `(B, S)` of their positions: `(B, T, V)`.

    `segment_sum` adds up duplicates on every backend in `O(B T (S + V))` time and memory. A product
    with one-hot ids takes `O(B T S V)`, and `keras.ops.scatter` on PyTorch is a Python loop.
    """
    batch, steps, size = shape
    if 0 in values.shape:  # PyTorch raises for empty segments
        return ops.zeros(shape, values.dtype)
    rows = ops.arange(batch * steps, dtype="int32")
    ids = ops.cast(ids, "int32")
    # An id that is out of range would be counted in the next row.
    ids = ops.where(ops.logical_and(ids >= 0, ids < size), ids, -batch * steps * size)
    segments = ops.reshape(rows, (batch, steps, 1)) * size + ids[:, None]
    sums = ops.segment_sum(
        ops.reshape(values, (-1,)), ops.reshape(segments, (-1,)), num_segments=batch * steps * size
    )
    return ops.reshape(sums, shape)
