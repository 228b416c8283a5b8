"""Hierarchical attention network for document classification."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_attn.layers.hierarchical_attention import (
    HierarchicalAttention,
    document_axes,
    level_names,
)
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.label_loss import LabelLoss
from keras_attn.models.padding import real_tokens
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class HierarchicalAttentionNetwork(LabelLoss, keras.Model):
    """Document classifier with attention over words, sentences and any higher levels.

    Args:
        vocabulary_size: Vocabulary size.
        num_classes: Number of classes C.
        embedding_dim: Embedding size.
        word_units: See `HierarchicalAttention`.
        sentence_units: See `HierarchicalAttention`.
        attention_units: See `HierarchicalAttention`.
        dropout: Dropout rate of the document vector.
        seed: Integer seed of the initial weights and of dropout.
        higher_units: See `HierarchicalAttention`.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, S, W)`, S sentences of W words; with one higher level
            `(B, P, S, W)`, and so on.
            `padding_mask` `(B, S, W)`, optional; 1 for real tokens. By default, id 0 is padding.
            For losses and metrics also `label` `(B,)`; `sample_weight` `(B,)`, optional.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `pooled_output`, the output of `HierarchicalAttention`, `logits` `(B, C)` in
        float32, `word_attention` `(B, S, W)`, `sentence_attention` `(B, S)`, and of the higher
        levels `level_3_attention` and so on.

    `fit` requires a dataset of such dictionaries. Loss `label`: cross-entropy; metric `accuracy`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Yang et al., Hierarchical Attention Networks for Document Classification, 2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import HierarchicalAttentionNetwork
        >>> model = HierarchicalAttentionNetwork(50, 3, embedding_dim=4, seed=0)
        >>> found = model({"token_ids": np.array([[[4, 7, 0], [5, 0, 0], [0, 0, 0]]])})
        >>> print(np.array(found["word_attention"])[0].sum(axis=-1).round(3))  # no word, no weight
        [1. 1. 0.]
    """

    INPUTS = {"token_ids": "BSW", "padding_mask": "BSW"}

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        embedding_dim: int = 200,
        word_units: int | None = 50,
        sentence_units: int | None = 50,
        attention_units: int = 100,
        dropout: float = 0.0,
        seed: int | None = None,
        higher_units: Sequence[int | None] = (),
        name: str | None = "hierarchical_attention_network",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        units = {"word_units": word_units, "sentence_units": sentence_units}
        sizes = {
            "vocabulary_size": vocabulary_size,
            "num_classes": num_classes,
            "embedding_dim": embedding_dim,
            "attention_units": attention_units,
        }
        require_sizes(**sizes)
        require_sizes(optional=True, **units)
        self.higher_units = tuple(higher_units)
        for size in self.higher_units:
            require_sizes(optional=True, higher_units=size)
        self.sizes: dict[str, Any] = {**sizes, **units}
        if self.higher_units:
            self.INPUTS = dict.fromkeys(self.INPUTS, document_axes(self.higher_units))
        require_rates(dropout=dropout)
        self.dropout = dropout
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        sizes = self.sizes
        embedding_seed, attention_seed, dense_seed, dropout_seed = split_seed(self.seed, 4)
        self.embedding = keras.layers.Embedding(
            sizes["vocabulary_size"],
            sizes["embedding_dim"],
            embeddings_initializer=seeded_initializer("uniform", embedding_seed),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.attention = HierarchicalAttention(
            sizes["word_units"],
            sizes["sentence_units"],
            sizes["attention_units"],
            seed=attention_seed,
            higher_units=self.higher_units,
            dtype=self.dtype_policy,
            name="attention",
        )
        self.logits_dense = keras.layers.Dense(
            sizes["num_classes"],
            dtype="float32",
            name="logits_dense",
            kernel_initializer=seeded_initializer("glorot_uniform", dense_seed),
        )
        self.embedding.build(None)
        shape = (*(None for _ in document_axes(self.higher_units)), sizes["embedding_dim"])
        self.attention.build(shape)
        self.logits_dense.build(self.attention.compute_output_shape(shape))
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        vector, *weights = self.attention(
            self.embedding(inputs["token_ids"]),
            mask=real_tokens(inputs),
            return_attention_scores=True,
        )
        dropped = drop(vector, self.dropout, self.seed_generator, training)
        return {
            "pooled_output": vector,
            "logits": self.logits_dense(dropped),
            **{
                f"{name}_attention": scores
                for name, scores in zip(level_names(self.higher_units), weights, strict=True)
            },
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            "dropout": self.dropout,
            "seed": self.seed,
            "higher_units": self.higher_units,
        }
