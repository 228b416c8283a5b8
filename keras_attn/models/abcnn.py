"""Convolutional networks for sentence pairs."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.abcnn1_attention import ABCNN1Attention
from keras_attn.layers.abcnn2_pooling import ABCNN2Pooling
from keras_attn.layers.padded_rnn import pad_empty_axis
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.label_loss import LabelLoss
from keras_attn.models.padding import real_tokens
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.matches import match_matrix, window_sums
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNN(LabelLoss, keras.Model):
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
        require_sizes(low=0, variant=variant)
        if variant > 3:
            raise ValueError(f"ABCNN: variant must be 0, 1, 2 or 3. Received: variant={variant}")
        self.variant = variant
        self.share_weights = share_weights
        self.normalize = normalize
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        sizes, blocks = self.sizes, range(self.sizes["num_blocks"])
        filters, width, policy = sizes["filters"], sizes["width"], self.dtype_policy
        embedding_seed, dense_seed, *seeds = split_seed(self.seed, 2 + 2 * len(blocks))
        depths = [sizes["embedding_dim"]] + [filters] * (len(blocks) - 1)
        # With Keras's default embeddings in ± 0.05, a word would match any other word nearly as
        # well as itself.
        initializer = keras.initializers.RandomNormal(stddev=1.0)
        self.embedding = keras.layers.Embedding(
            sizes["vocabulary_size"],
            sizes["embedding_dim"],
            dtype=policy,
            name="embedding",
            embeddings_initializer=seeded_initializer(initializer, embedding_seed),
        )
        self.embedding.build(None)
        self.attentions, self.poolings = [], []
        if self.variant in (1, 3):
            self.attentions = [
                ABCNN1Attention(
                    sizes["max_length"],
                    self.share_weights,
                    seed=seeds.pop(),
                    dtype=policy,
                    name=f"attention_{i}",
                )
                for i in blocks
            ]
        if self.variant in (2, 3):
            self.poolings = [
                ABCNN2Pooling(width, self.normalize, dtype=policy, name=f"pooling_{i}")
                for i in blocks
            ]
        self.convolutions = [
            keras.layers.Conv1D(
                filters,
                width,
                activation="tanh",
                dtype=policy,
                name=f"convolution_{i}",
                kernel_initializer=seeded_initializer("glorot_uniform", seeds.pop()),
            )
            for i in blocks
        ]
        self.logits_dense = keras.layers.Dense(
            sizes["num_classes"],
            dtype="float32",
            name="logits_dense",
            kernel_initializer=seeded_initializer("glorot_uniform", dense_seed),
        )
        for attention, depth in zip(self.attentions, depths, strict=False):
            attention.build((None, None, depth), (None, None, depth))
        for convolution, depth in zip(self.convolutions, depths, strict=True):
            channels = 2 if self.attentions else 1
            convolution.build((None, None, channels * depth))
        for pooling in self.poolings:
            pooling.build((None, None, filters), (None, None, filters))
        self.logits_dense.build((None, len(blocks) * (2 * filters + 1)))
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        masks = [
            real_tokens(inputs),
            real_tokens(inputs, "second_token_ids", "second_padding_mask"),
        ]
        pair = [
            _zero_padding(self.embedding(inputs[name]), mask)
            for name, mask in zip(("token_ids", "second_token_ids"), masks, strict=True)
        ]
        features, attention = [], {}
        for block in range(self.sizes["num_blocks"]):
            pair, found = self._block(block, pair, masks)
            attention.update(found)
            means = [_mean(x, mask) for x, mask in zip(pair, masks, strict=True)]
            match = match_matrix(*(mean[:, None] for mean in means))[:, 0]
            features += [*means, match]
        return {"logits": self.logits_dense(ops.concatenate(features, axis=-1)), **attention}

    def _convolve(self, number, x):
        # For empty batches, TensorFlow's convolution has a different depth.
        padded = pad_empty_axis(_pad(x, self.sizes["width"]), axis=0)
        return self.convolutions[number](padded)[: ops.shape(x)[0]]

    def _block(self, number, pair, masks):
        found, width = {}, self.sizes["width"]
        if self.attentions:
            *pair, matches = self.attentions[number](
                *pair, first_mask=masks[0], second_mask=masks[1], return_attention_scores=True
            )
            found[f"input_attention_{number}"] = matches
        pair = [self._convolve(number, x) for x in pair]
        # A position is real if its window contains a real step.
        seen = [window_sums(_pad(ops.cast(mask, "int32"), width), width) > 0 for mask in masks]
        if self.poolings:
            *pair, matches = self.poolings[number](
                *pair, first_mask=seen[0], second_mask=seen[1], return_attention_scores=True
            )
            found[f"pooling_attention_{number}"] = matches
        else:
            pair = [
                window_sums(_zero_padding(x, mask), width) / width
                for x, mask in zip(pair, seen, strict=True)
            ]
        return [_zero_padding(x, mask) for x, mask in zip(pair, masks, strict=True)], found

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            "variant": self.variant,
            "share_weights": self.share_weights,
            "normalize": self.normalize,
            "seed": self.seed,
        }


def _pad(x, width):
    """Pads the steps with `width - 1` zeros on both sides."""
    return ops.pad(x, ((0, 0), (width - 1, width - 1), *[(0, 0)] * (len(x.shape) - 2)))


def _zero_padding(x, mask):
    return ops.where(mask[..., None], x, 0)


def _mean(x, mask):
    """Returns the mean over real steps, float32 `(B, D)`; padding is 0."""
    count = ops.sum(ops.cast(mask, "float32"), axis=1)[:, None]
    return ops.sum(ops.cast(x, "float32"), axis=1) / ops.maximum(count, 1.0)
