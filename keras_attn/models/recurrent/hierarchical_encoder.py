"""Hierarchical attention encoder of texts that are sequences of token ids."""

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.hierarchical_attention import HierarchicalAttention, level_names
from keras_attn.layers.padded_rnn import with_nonempty_batch
from keras_attn.layers.seeds import split_seed
from keras_attn.models.recurrent.document_units import split_units
from keras_attn.models.text_encoder import TextEncoder
from keras_attn.ops.arguments import require_each, require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.time_loop import pad_empty_axis
from keras_attn.types import Shape, Tensor

ENCODERS = "gru", "none"


@keras.saving.register_keras_serializable(package="keras_attn")
class HierarchicalEncoder(TextEncoder):
    """Hierarchical attention over the words of each sentence, the sentences, and higher levels.

    The tokens of a text are split into sentences inside of the model, so its inputs are those of
    any other encoder. A sentence ends after the last of consecutive tokens in `sentence_ends` if it
    has at least `min_words` tokens, and before more than `max_words` tokens. A paragraph ends after
    a sentence that ends in a token of `paragraph_ends`, and before more than `max_units`
    sentences. Each unit of a higher level has `max_units` units of the level below. No token is
    dropped.

    Args:
        vocabulary_size: Vocabulary size.
        hidden_dim: Size D of all vectors, an even number; a GRU has D / 2 units per direction.
        levels: What encodes the units of each level before attention pools them, separated by
            commas: `"gru"`, a bidirectional GRU, or `"none"`. There are at least two levels, words
            and sentences; the third is paragraphs.
        min_words: Minimum number of tokens of a sentence; only the last one may have fewer.
        max_words: Maximum number of tokens of a sentence.
        max_units: Maximum number of sentences of a paragraph, and of units of each higher level.
        sentence_ends: Ids of the tokens that may end a sentence.
        paragraph_ends: Ids of the tokens that end a paragraph; they may also end a sentence.
        embedding_dim: Embedding size; defaults to D, and must be D if words have no GRU.
        dropout: Dropout rate of the embeddings and of the vectors of all units.
        embedding_stddev: Standard deviation of the initial token embeddings.
        initializer_range: Standard deviation of the initial weights of task heads.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `padding_mask` `(B, T)`, optional; 1 for real tokens, which may be at any position.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`, the vectors of the words, 0 at padding;
        `pooled_output` `(B, D)`; and attention weights `(B, T)`, 0 at padding. Those of a level are
        given for each token: `word_attention` sums to 1 over the tokens of a sentence,
        `sentence_attention` is the weight of the sentence of a token, `level_3_attention` that of
        its paragraph, and so on. Their product, `pooling_attention`, sums to 1.

    Raises:
        ValueError: If an argument is out of range or unknown, or D is odd.

    Reference:
        Yang et al., Hierarchical Attention Networks for Document Classification, 2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import HierarchicalEncoder
        >>> model = HierarchicalEncoder(50, 8, min_words=2, sentence_ends=[3], seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 9, 3, 8, 5, 3]])})
        >>> print(found["pooled_output"].shape)
        (1, 8)
        >>> words = np.array(found["word_attention"])[0]
        >>> print(words[:4].sum().round(3), words[4:].sum().round(3))
        1.0 1.0
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 128,
        levels: str = "gru,gru",
        min_words: int = 8,
        max_words: int = 32,
        max_units: int = 10,
        sentence_ends: Sequence[Any] = (),
        paragraph_ends: Sequence[Any] = (),
        embedding_dim: int | None = None,
        dropout: float = 0.1,
        embedding_stddev: float = 1.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "hierarchical_encoder",
        **kwargs: Any,
    ) -> None:
        sizes = vocabulary_size, hidden_dim, embedding_dim
        stddevs = embedding_stddev, initializer_range
        super().__init__(*sizes, *stddevs, dropout, seed, name=name, **kwargs)
        require_sizes(min_words=min_words, max_words=max_words, max_units=max_units)
        self.encoders = _encoders(levels)
        if hidden_dim % 2:
            raise ValueError(
                f"HierarchicalEncoder: hidden_dim must be even. Received: hidden_dim={hidden_dim}"
            )
        if max_words < min_words:
            raise ValueError(
                "HierarchicalEncoder: max_words must be at least min_words. "
                f"Received: max_words={max_words}, min_words={min_words}"
            )
        if self.encoders[0] == "none" and self.embedding_dim != hidden_dim:
            raise ValueError(
                "HierarchicalEncoder: embedding_dim must be hidden_dim if words have no GRU. "
                f"Received: embedding_dim={embedding_dim}, hidden_dim={hidden_dim}"
            )
        ends = {"sentence_ends": tuple(sentence_ends), "paragraph_ends": tuple(paragraph_ends)}
        require_each(_require_id, "token ids", **ends)
        self.levels = levels
        self.min_words = min_words
        self.max_words = max_words
        self.max_units = max_units
        self.sentence_ends = ends["sentence_ends"]
        self.paragraph_ends = ends["paragraph_ends"]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, attention_seed, dropout_seed = split_seed(self.seed, 3)
        self._build_embedding(embedding_seed, dropout_seed)
        units = [self.hidden_dim // 2 if name == "gru" else None for name in self.encoders]
        word_units, sentence_units, *higher_units = units
        self.attention = HierarchicalAttention(
            word_units,
            sentence_units,
            self.hidden_dim,
            higher_units=higher_units,
            seed=attention_seed,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.attention.build((None,) * (len(units) + 1) + (self.embedding_dim,))
        self.built = True

    def _depths(self):
        return [[self.attention]]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        ids = ops.cast(inputs["token_ids"], "int32")
        mask = as_mask(inputs.get("padding_mask"), "padding_mask")
        real = ops.ones_like(ids, "bool") if mask is None else mask
        length = ops.shape(ids)[1]
        padded = pad_empty_axis(ids)
        outputs = with_nonempty_batch(
            lambda ids, real: self._encode(ids, real, training), padded, pad_empty_axis(real)
        )
        if padded is ids:
            return outputs
        return {
            name: x if name == "pooled_output" else x[:, :length] for name, x in outputs.items()
        }

    def attention_of(self, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns the attention weights of a call, for `keras_attn.visualize.attention_maps`."""
        return {name: x for name, x in outputs.items() if name.endswith("_attention")}

    def _encode(self, ids, real, training):
        levels = self._split(ids, real)
        x = self._embed(levels[0].gather(ids), training)
        vectors, scores, hidden = self.attention.pool(0, x, levels[0].mask)
        weights = [levels[0].spread(scores)]
        for level in range(1, len(self.encoders)):
            vectors = self._drop(vectors, training)
            if level < len(levels):
                units = levels[level]
                vectors, scores, _ = self.attention.pool(level, units.gather(vectors), units.mask)
                scores = units.spread(scores)
            else:  # the text is the only unit of the last level
                mask = ops.any(levels[-1].mask, axis=-1)
                vectors, scores, _ = self.attention.pool(level, vectors, mask)
            for below in reversed(levels[:level]):
                scores = below.of_elements(scores)
            weights.append(scores)
        weights = [ops.where(real, x, 0) for x in weights]
        names = (f"{name}_attention" for name in level_names(self.encoders[2:]))
        return {
            "sequence_output": ops.where(real[..., None], levels[0].spread(hidden), 0),
            "pooled_output": vectors,
            "pooling_attention": functools.reduce(ops.multiply, weights),
            **dict(zip(names, weights, strict=True)),
        }

    def _split(self, ids, real):
        """Returns the `Units` of each level except the last one: sentences, paragraphs, …"""
        paragraph_ends = _any_of(ids, self.paragraph_ends)
        ends = ops.logical_or(_any_of(ids, self.sentence_ends), paragraph_ends)
        words = split_units(real, ends, self.min_words, self.max_words, continued=ends)
        found = [words]
        for level in range(2, len(self.encoders)):
            real = ops.any(found[-1].mask, axis=-1)
            if level == 2:
                ends, least = words.last(paragraph_ends), 1
            else:
                ends, least = ops.zeros_like(real), self.max_units
            found.append(split_units(real, ends, least, self.max_units))
        return found

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "levels": self.levels,
            "min_words": self.min_words,
            "max_words": self.max_words,
            "max_units": self.max_units,
            "sentence_ends": list(self.sentence_ends),
            "paragraph_ends": list(self.paragraph_ends),
        }


def _any_of(ids, chosen):
    found = ops.zeros_like(ids, "bool")
    for one in chosen:
        found = ops.logical_or(found, ops.equal(ids, one))
    return found


def _encoders(levels):
    names = tuple(levels.split(",")) if isinstance(levels, str) else ()
    if len(names) < 2 or not set(names) <= set(ENCODERS):
        raise ValueError(
            "HierarchicalEncoder: levels must be two or more of gru and none, separated by commas. "
            f"Received: levels={levels!r}"
        )
    return names


def _require_id(element):
    require_sizes(low=0, element=element)
