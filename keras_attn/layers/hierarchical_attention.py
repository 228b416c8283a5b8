"""Hierarchical attention: over the words of each sentence, then over the sentences."""

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
    an empty document is 0.

    Args:
        word_units: Units of the word GRU in each direction.
        sentence_units: Units of the sentence GRU in each direction.
        attention_units: Hidden units of both attention layers.
        kernel_initializer: Initializer of the attention kernels.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: Word embeddings `(B, S, W, D)`: S sentences of W words.
        mask: Boolean or integer `(B, S, W)`, True for words; defaults to the Keras mask of the
            inputs.
        return_attention_scores: Whether to also return the attention weights.

    Returns:
        `(B, 2 sentence_units)`; with `return_attention_scores` then the word weights within each
        sentence, `(B, S, W)`, and the sentence weights, `(B, S)`.

    Raises:
        ValueError: If a number of units is not positive, the inputs do not have four axes, or a
            mask is float.

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
        word_units: int = 50,
        sentence_units: int = 50,
        attention_units: int = 100,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(
            word_units=word_units, sentence_units=sentence_units, attention_units=attention_units
        )
        self.word_units = word_units
        self.sentence_units = sentence_units
        self.attention_units = attention_units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.require_axes(inputs=input_shape)
        seeds = split_seed(self.seed, 4)
        self.word_gru, self.sentence_gru = (
            bidirectional(keras.layers.GRU, units, seeds.pop(), self.dtype_policy, f"{name}_gru")
            for name, units in (("word", self.word_units), ("sentence", self.sentence_units))
        )
        self.word_attention, self.sentence_attention = (
            AttentionPooling(
                self.attention_units,
                kernel_initializer=self.kernel_initializer,
                seed=seeds.pop(),
                dtype=self.dtype_policy,
                name=f"{name}_attention",
            )
            for name in ("word", "sentence")
        )
        self.word_gru.build((None, None, input_shape[-1]))
        self.word_attention.build((None, None, 2 * self.word_units))
        self.sentence_gru.build((None, None, 2 * self.word_units))
        self.sentence_attention.build((None, None, 2 * self.sentence_units))
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, ...]:
        batch, sentences, words, depth = ops.shape(inputs)
        rows = batch * sentences  # not -1, which is ambiguous if words is 0
        mask, sentence_mask = as_mask(mask), None
        if mask is not None:
            sentence_mask = ops.any(mask, axis=-1)
            mask = ops.reshape(mask, (rows, words))
        # (B, S, W, D) -> (B S, W, D): each sentence is a separate row.
        vectors, word_weights = _encode(
            self.word_gru, self.word_attention, ops.reshape(inputs, (rows, words, depth)), mask
        )
        vectors = ops.reshape(vectors, (batch, sentences, 2 * self.word_units))
        vector, weights = _encode(
            self.sentence_gru, self.sentence_attention, vectors, sentence_mask
        )
        if not return_attention_scores:
            return vector
        return vector, ops.reshape(word_weights, (batch, sentences, words)), weights

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        return None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape[0], 2 * self.sentence_units

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "word_units": self.word_units,
            "sentence_units": self.sentence_units,
            "attention_units": self.attention_units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }


def _encode(gru, attention, x, mask):
    hidden, *_ = run_rnn(gru, x, mask)
    return attention(hidden, mask=mask, return_attention_scores=True)
