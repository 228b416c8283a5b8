"""Hierarchical attention: over words, sentences and any higher levels of a document."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.padded_rnn import bidirectional, run_rnn
from keras_attn.layers.seeds import split_seed
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.types import Initializer, Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class HierarchicalAttention(CheckedLayer):
    """Encodes a document with attention pooling over its sentences, and each over its words.

    `s_i = pool_t(BiGRU(w_i1 … w_iW))`, `output = pool_i(BiGRU(s_1 … s_S))`, where `pool` is
    `AttentionPooling`. The vector of an empty sentence is 0 and is not attended to; the output of
    an empty document is 0. Each of `higher_units` adds a level above the sentences, such as
    paragraphs and then chapters, with one more axis in the inputs.

    Args:
        word_units: Units of the word GRU in each direction; None for no GRU, so that attention
            pools the word embeddings themselves.
        sentence_units: Units of the sentence GRU in each direction; None for no GRU.
        attention_units: Hidden units of the attention layers.
        kernel_initializer: Initializer of the attention kernels.
        seed: Integer seed of the initial weights.
        higher_units: Units of the GRU of each higher level in each direction, from the lowest
            level; None for a level without GRU.

    Call arguments:
        inputs: Word embeddings `(B, S, W, D)`: S sentences of W words; with one higher level
            `(B, P, S, W, D)`, and so on.
        mask: Boolean or integer `(B, S, W)`, True for words; defaults to the Keras mask of the
            inputs.
        return_attention_scores: Whether to also return the attention weights.

    Returns:
        `(B, 2 U)`, where U is the number of units of the highest level, or the vector size of the
        level below if it has no GRU; with `return_attention_scores` then the word weights within
        each sentence, `(B, S, W)`, the sentence weights, `(B, S)`, and those of the higher levels.

    Raises:
        ValueError: If a number of units is not positive, the inputs have another number of axes, or
            a mask is float.

    Reference:
        Yang et al., Hierarchical Attention Networks for Document Classification,
        2016, eq. 1-10.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import HierarchicalAttention
        >>> layer = HierarchicalAttention(2, 3, 4, kernel_initializer="zeros")
        >>> vector, words, sentences = layer(np.ones((1, 3, 2, 5)), return_attention_scores=True,
        ...                                  mask=np.array([[[1, 1], [1, 0], [0, 0]]]))
        >>> print(vector.shape, ops.convert_to_numpy(words), ops.convert_to_numpy(sentences))
        (1, 6) [[[0.5 0.5]
          [1.  0. ]
          [0.  0. ]]] [[0.5 0.5 0. ]]
    """

    AXES = {"inputs": "BSWD"}

    def __init__(
        self,
        word_units: int | None = 50,
        sentence_units: int | None = 50,
        attention_units: int = 100,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        higher_units: Sequence[int | None] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(attention_units=attention_units)
        require_sizes(optional=True, word_units=word_units, sentence_units=sentence_units)
        for units in higher_units:
            require_sizes(optional=True, higher_units=units)
        self.word_units = word_units
        self.sentence_units = sentence_units
        self.attention_units = attention_units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.higher_units = tuple(higher_units)
        self.AXES = {"inputs": document_axes(self.higher_units) + "D"}
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.require_axes(inputs=input_shape)
        *attention_seeds, sentence_seed, word_seed = split_seed(self.seed, 4)
        higher_seeds = split_seed(self.seed, 2 * len(self.higher_units), stream=1)
        units = (self.word_units, self.sentence_units, *self.higher_units)
        names = level_names(self.higher_units)
        gru_seeds = [word_seed, sentence_seed, *higher_seeds[::2]]
        attention_seeds = [*attention_seeds[::-1], *higher_seeds[1::2]]
        depths, depth = [], input_shape[-1]
        for name, size, seed in zip(names, units, gru_seeds, strict=True):
            gru = None
            if size is not None:
                gru = bidirectional(keras.layers.GRU, size, seed, self.dtype_policy, f"{name}_gru")
                gru.build((None, None, depth))
                depth = 2 * size
            setattr(self, f"{name}_gru", gru)
            depths.append(depth)
        for name, depth, seed in zip(names, depths, attention_seeds, strict=True):
            attention = AttentionPooling(
                self.attention_units,
                kernel_initializer=self.kernel_initializer,
                seed=seed,
                dtype=self.dtype_policy,
                name=f"{name}_attention",
            )
            attention.build((None, None, depth))
            setattr(self, f"{name}_attention", attention)
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, ...]:
        vectors, mask, weights = inputs, as_mask(mask), []
        for level in range(len(self.higher_units) + 2):
            vectors, scores, _ = self.pool(level, vectors, mask)
            weights.append(scores)
            mask = None if mask is None else ops.any(mask, axis=-1)
        return (vectors, *weights) if return_attention_scores else vectors

    def pool(
        self, level: int, vectors: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pools the units of one level of a built layer.

        Args:
            level: 0 for words, 1 for sentences, and so on.
            vectors: `(..., N, D)`, the vectors of N units of this level.
            mask: Boolean `(..., N)`, or None.

        Returns:
            The vectors of the level above, `(..., U)`, the attention weights, `(..., N)`, and the
            outputs of the GRU, `(..., N, U)`, or the given vectors without one.
        """
        name = level_names(self.higher_units)[level]
        gru, attention = getattr(self, f"{name}_gru"), getattr(self, f"{name}_attention")
        # (..., N, D) -> (rows, N, D): each unit of the level above is a separate row.
        *outer, length, depth = ops.shape(vectors)
        rows = math.prod(outer)  # not -1, which is ambiguous if N is 0
        flat_mask = None if mask is None else ops.reshape(mask, (rows, length))
        hidden = ops.reshape(vectors, (rows, length, depth))
        if gru is not None:
            hidden, *_ = run_rnn(gru, hidden, flat_mask)
        pooled, scores = attention(hidden, mask=flat_mask, return_attention_scores=True)
        depth = hidden.shape[-1]
        return (
            ops.reshape(pooled, (*outer, depth)),
            ops.reshape(scores, (*outer, length)),
            ops.reshape(hidden, (*outer, length, depth)),
        )

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        units = (self.word_units, self.sentence_units, *self.higher_units)
        depths = [input_shape[-1], *(2 * size for size in units if size is not None)]
        return input_shape[0], depths[-1]

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "word_units": self.word_units,
            "sentence_units": self.sentence_units,
            "attention_units": self.attention_units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
            "higher_units": self.higher_units,
        }


def level_names(higher_units):
    """Names of the levels, from the lowest."""
    return ["word", "sentence", *(f"level_{i + 3}" for i in range(len(higher_units)))]


def document_axes(higher_units):
    """Axes of the tokens of a document for `require_axes`, one for each level."""
    return "B" + "PQRUVXYZACEFGHIJKLMNOT"[: len(higher_units)] + "SW"
