"""Convolutional networks for pairs of sentences."""

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
    """Classes of pairs of sentences: a convolutional network in which they attend to each other.

    A block is a wide convolution (of `length + width - 1` places) with tanh, and pooling of
    windows of `width` places (w-ap), back to the length. Of every block the mean over all steps
    (all-ap) goes to the classes: those of both sentences and how well they match,
    `1 / (1 + distance)`; a linear layer on two vectors alone could not compare them. Words start
    from a normal distribution of deviation 1, so that few match at first.

    Args:
        vocabulary_size: Rows of the token table.
        num_classes: Number of classes C.
        max_length: Tokens of the longest sentence; of variants 1 and 3 alone a limit.
        variant: 0: no attention (BCNN); 1: before the convolution, see `ABCNN1Attention`; 2: in
            the pooling, see `ABCNN2Pooling`; 3: both.
        embedding_dim: Depth of the token table.
        filters: Depth of the convolutions.
        width: Their places, and those of the windows.
        num_blocks: Blocks, one after another.
        share_weights: Of `ABCNN1Attention`.
        normalize: Of `ABCNN2Pooling`.
        seed: Integer for initial weights.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`, the first sentences; `second_token_ids` `(B, S)`.
            `padding_mask`, `second_padding_mask`, optional; 1 for real tokens. Without them id 0
            is padding.
            For losses and metrics also `label` `(B,)`; `sample_weight` `(B,)`, optional.

    Returns:
        Dictionary of `logits` `(B, C)` in float32; of block i with variants 1 and 3
        `input_attention_i` `(B, T, S)`, with 2 and 3 `pooling_attention_i`
        `(B, T + width - 1, S + width - 1)`, the matches.

    `fit` takes a dataset of such dictionaries. Loss `label`: cross-entropy; metric `accuracy`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Yin et al., ABCNN: Attention-Based Convolutional Neural Network for Modeling
        Sentence Pairs, 2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ABCNN
        >>> model = ABCNN(50, 2, max_length=8, variant=1, embedding_dim=4, filters=3, seed=0)
        >>> ids = np.array([[4, 7, 9, 0]])
        >>> found = model({"token_ids": ids, "second_token_ids": ids})
        >>> print(np.diag(found["input_attention_0"][0]).round(3))  # how each token matches itself
        [1. 1. 1. 0.]
    """

    INPUTS = {"token_ids": "BT", "second_token_ids": "BS", "padding_mask": "BT",
              "second_padding_mask": "BS"}
    SAME_BATCH = ("token_ids", "second_token_ids")
    REQUIRED = ("token_ids", "second_token_ids")

    def __init__(self, vocabulary_size: int, num_classes: int, max_length: int, variant: int = 3,
                 embedding_dim: int = 300, filters: int = 50, width: int = 4, num_blocks: int = 1,
                 share_weights: bool = True, normalize: bool = False, seed: int | None = None,
                 name: str | None = "abcnn", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.sizes = {
            "vocabulary_size": vocabulary_size, "num_classes": num_classes,
            "max_length": max_length, "embedding_dim": embedding_dim, "filters": filters,
            "width": width, "num_blocks": num_blocks}
        require_sizes(**self.sizes)
        require_sizes(low=0, variant=variant)
        if variant > 3:
            raise ValueError(f"variant must be 0, 1, 2 or 3. Received: variant={variant}")
        self.variant = variant
        self.share_weights = share_weights
        self.normalize = normalize
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        sizes, blocks = self.sizes, range(self.sizes["num_blocks"])
        filters, width, policy = sizes["filters"], sizes["width"], self.dtype_policy
        embedding_seed, dense_seed, *seeds = split_seed(self.seed, 2 + 2 * len(blocks))
        depths = [sizes["embedding_dim"]] + [filters] * (len(blocks) - 1)
        # Keras's vectors of ± 0.05 would all be close together: a word would match any other nearly
        # as well as itself.
        apart = keras.initializers.RandomNormal(stddev=1.0)
        self.embedding = keras.layers.Embedding(
            sizes["vocabulary_size"], sizes["embedding_dim"], dtype=policy, name="embedding",
            embeddings_initializer=seeded_initializer(apart, embedding_seed))
        self.embedding.build(None)
        self.attentions, self.poolings = [], []
        if self.variant in (1, 3):
            self.attentions = [
                ABCNN1Attention(sizes["max_length"], self.share_weights, seed=seeds.pop(),
                                dtype=policy, name=f"attention_{i}") for i in blocks]
        if self.variant in (2, 3):
            self.poolings = [ABCNN2Pooling(width, self.normalize, dtype=policy,
                                           name=f"pooling_{i}") for i in blocks]
        self.convolutions = [
            keras.layers.Conv1D(
                filters, width, activation="tanh", dtype=policy, name=f"convolution_{i}",
                kernel_initializer=seeded_initializer("glorot_uniform", seeds.pop()))
            for i in blocks]
        self.logits_dense = keras.layers.Dense(
            sizes["num_classes"], dtype="float32", name="logits_dense",
            kernel_initializer=seeded_initializer("glorot_uniform", dense_seed))
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
        masks = [real_tokens(inputs),
                 real_tokens(inputs, "second_token_ids", "second_padding_mask")]
        pair = [_zero_padding(self.embedding(inputs[name]), mask)
                for name, mask in zip(("token_ids", "second_token_ids"), masks, strict=True)]
        features, attention = [], {}
        for block in range(self.sizes["num_blocks"]):
            pair, found = self._block(block, pair, masks)
            attention.update(found)
            means = [_mean(x, mask) for x, mask in zip(pair, masks, strict=True)]
            match = match_matrix(*(mean[:, None] for mean in means))[:, 0]
            features += [*means, match]
        return {"logits": self.logits_dense(ops.concatenate(features, axis=-1)), **attention}

    def _convolved(self, number, x):
        # Of no row TensorFlow's convolution has another depth.
        padded = pad_empty_axis(_padded(x, self.sizes["width"]), axis=0)
        return self.convolutions[number](padded)[:ops.shape(x)[0]]

    def _block(self, number, pair, masks):
        found, width = {}, self.sizes["width"]
        if self.attentions:
            *pair, matches = self.attentions[number](
                *pair, first_mask=masks[0], second_mask=masks[1], return_attention_scores=True)
            found[f"input_attention_{number}"] = matches
        pair = [self._convolved(number, x) for x in pair]
        # A place counts if it sees a real step.
        seen = [window_sums(_padded(ops.cast(mask, "int32"), width), width) > 0 for mask in masks]
        if self.poolings:
            *pair, matches = self.poolings[number](
                *pair, first_mask=seen[0], second_mask=seen[1], return_attention_scores=True)
            found[f"pooling_attention_{number}"] = matches
        else:
            pair = [window_sums(_zero_padding(x, mask), width) / width
                    for x, mask in zip(pair, seen, strict=True)]
        return [_zero_padding(x, mask) for x, mask in zip(pair, masks, strict=True)], found

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.sizes, "variant": self.variant,
                "share_weights": self.share_weights, "normalize": self.normalize,
                "seed": self.seed}


def _padded(x, width):
    """With `width - 1` zeros before and after the steps."""
    return ops.pad(x, ((0, 0), (width - 1, width - 1), *[(0, 0)] * (len(x.shape) - 2)))


def _zero_padding(x, mask):
    return ops.where(mask[..., None], x, 0)


def _mean(x, mask):
    """Over real steps, float32 `(B, D)`; padding is 0."""
    count = ops.sum(ops.cast(mask, "float32"), axis=1)[:, None]
    return ops.sum(ops.cast(x, "float32"), axis=1) / ops.maximum(count, 1.0)
