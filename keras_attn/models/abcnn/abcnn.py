"""Convolutional network for two sentences in two arrays."""

from typing import Any

import keras

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.abcnn.blocks import ABCNNBlocks
from keras_attn.models.label_loss import LabelLoss
from keras_attn.models.padding import real_tokens
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNN(ABCNNBlocks, LabelLoss, keras.Model):
    """Sentence pair classifier: a convolutional network with attention between the sentences.

    A block is a wide convolution (with `length + width - 1` positions) with tanh, followed by
    average pooling over windows of `width` positions (w-ap), which restores the length. The
    classifier uses the mean over all steps (all-ap) of both sentences after every block, and their
    match score `1 / (1 + distance)`, since a linear layer on two vectors alone could not compare
    them. Embeddings are initialized with standard deviation 1, so that few words match at first.

    Args:
        vocabulary_size: Vocabulary size.
        num_classes: Number of classes C.
        max_length: Maximum sentence length in tokens; only a limit for variants 1 and 3.
        variant: 0: no attention (BCNN); 1: attention before the convolution, see `ABCNN1Attention`;
            2: attention in the pooling, see `ABCNN2Pooling`; 3: both.
        embedding_dim: Embedding size.
        filters: Number of filters of the convolutions.
        width: Size of the convolution kernels and of the pooling windows.
        num_blocks: Number of blocks.
        share_weights: See `ABCNN1Attention`.
        normalize: See `ABCNN2Pooling`.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`, the first sentences; `second_token_ids` `(B, S)`.
            `padding_mask`, `second_padding_mask`, optional; 1 for real tokens. By default, id 0 is
                padding.
            For losses and metrics also `label` `(B,)`; `sample_weight` `(B,)`, optional.

    Returns:
        Dictionary of `logits` `(B, C)` in float32, and for each block i the match scores: with
        variants 1 and 3 `input_attention_i` `(B, T, S)`, with 2 and 3 `pooling_attention_i`
        `(B, T + width - 1, S + width - 1)`.

    `fit` requires a dataset of such dictionaries. Loss `label`: cross-entropy; metric `accuracy`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Yin et al., ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs,
        2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ABCNN
        >>> model = ABCNN(50, 2, max_length=8, variant=1, embedding_dim=4, filters=3, seed=0)
        >>> ids = np.array([[4, 7, 9, 0]])
        >>> found = model({"token_ids": ids, "second_token_ids": ids})
        >>> print(np.diag(found["input_attention_0"][0]).round(3))  # how each token matches itself
        [1. 1. 1. 0.]
    """

    INPUTS = {
        "token_ids": "BT",
        "second_token_ids": "BS",
        "padding_mask": "BT",
        "second_padding_mask": "BS",
    }
    SAME_BATCH = ("token_ids", "second_token_ids")
    REQUIRED = ("token_ids", "second_token_ids")

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        max_length: int,
        variant: int = 3,
        embedding_dim: int = 300,
        filters: int = 50,
        width: int = 4,
        num_blocks: int = 1,
        share_weights: bool = True,
        normalize: bool = False,
        seed: int | None = None,
        name: str | None = "abcnn",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.sizes = {
            "vocabulary_size": vocabulary_size,
            "num_classes": num_classes,
            "max_length": max_length,
            "embedding_dim": embedding_dim,
            "filters": filters,
            "width": width,
            "num_blocks": num_blocks,
        }
        require_sizes(**self.sizes)
        self._set_variant(variant, share_weights, normalize)
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        sizes, filters, blocks = self.sizes, self.sizes["filters"], self.sizes["num_blocks"]
        embedding_seed, dense_seed, *seeds = split_seed(self.seed, 2 + 2 * blocks)
        # With Keras's default embeddings in ± 0.05, a word would match any other word nearly as
        # well as itself.
        initializer = keras.initializers.RandomNormal(stddev=1.0)
        self.embedding = keras.layers.Embedding(
            sizes["vocabulary_size"],
            sizes["embedding_dim"],
            dtype=self.dtype_policy,
            name="embedding",
            embeddings_initializer=seeded_initializer(initializer, embedding_seed),
        )
        self.embedding.build(None)
        shape = sizes["embedding_dim"], filters, sizes["width"], sizes["max_length"]
        self._build_blocks(blocks, *shape, seeds)
        self.logits_dense = keras.layers.Dense(
            sizes["num_classes"],
            dtype="float32",
            name="logits_dense",
            kernel_initializer=seeded_initializer("glorot_uniform", dense_seed),
        )
        self.logits_dense.build((None, blocks * (2 * filters + 1)))
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        masks = [
            real_tokens(inputs),
            real_tokens(inputs, "second_token_ids", "second_padding_mask"),
        ]
        pair = [self.embedding(inputs[name]) for name in ("token_ids", "second_token_ids")]
        _, features, attention = self._encode_pair(pair, masks)
        return {"logits": self.logits_dense(features), **attention}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            "variant": self.variant,
            "share_weights": self.share_weights,
            "normalize": self.normalize,
            "seed": self.seed,
        }
