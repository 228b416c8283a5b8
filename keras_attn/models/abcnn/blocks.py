"""The blocks of ABCNN: convolution, pooling, and attention between two sentences."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.abcnn1_attention import ABCNN1Attention
from keras_attn.layers.abcnn2_pooling import ABCNN2Pooling
from keras_attn.layers.seeds import seeded_initializer
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.matches import match_matrix, window_sums
from keras_attn.ops.time_loop import pad_empty_axis
from keras_attn.types import Tensor


class ABCNNBlocks:
    """Mixin of models that encode two sentences by the blocks of ABCNN.

    A block is a wide convolution (with `length + width - 1` positions) with tanh, followed by
    average pooling over windows of `width` positions (w-ap), which restores the length.

    `__init__` of a model calls `_set_variant`, and its `build` calls `_build_blocks`.
    """

    dtype_policy: Any

    def _set_variant(self, variant, share_weights, normalize):
        require_sizes(low=0, variant=variant)
        if variant > 3:
            raise ValueError(
                f"{type(self).__name__}: variant must be 0, 1, 2 or 3. Received: variant={variant}"
            )
        self.variant = variant
        self.share_weights = share_weights
        self.normalize = normalize

    def _build_blocks(self, num_blocks, depth, filters, width, max_length, seeds):
        """Creates the layers.

        Args:
            num_blocks: Number of blocks.
            depth: Size of the embeddings.
            filters, width: Number and size of the filters.
            max_length: Maximum sentence length, for variants 1 and 3.
            seeds: List of seeds, two per block, of which the last ones are removed.
        """
        blocks, policy = range(num_blocks), self.dtype_policy
        depths = [depth] + [filters] * (num_blocks - 1)
        self.attentions, self.poolings = [], []
        if self.variant in (1, 3):
            self.attentions = [
                ABCNN1Attention(
                    max_length,
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
        for attention, size in zip(self.attentions, depths, strict=False):
            attention.build((None, None, size), (None, None, size))
        for convolution, size in zip(self.convolutions, depths, strict=True):
            channels = 2 if self.attentions else 1
            convolution.build((None, None, channels * size))
        for pooling in self.poolings:
            pooling.build((None, None, filters), (None, None, filters))

    def _encode_pair(
        self, pair: list[Tensor], masks: list[Tensor]
    ) -> tuple[list[Tensor], Tensor, dict[str, Tensor]]:
        """Applies the blocks.

        Args:
            pair: Embeddings of the two sentences, `(B, T, D)` and `(B, S, D)`.
            masks: Boolean `(B, T)` and `(B, S)`, True for real tokens.

        Returns:
            Vectors of the tokens after the last block, 0 at padding; for all blocks together a
            vector of each sentence and their match score, `1 / (1 + distance)`, float32
            `(B, num_blocks (2 filters + 1))`; and the match scores of the tokens by name.
        """
        features, found = [], {}
        pair = [zero_padding(x, mask) for x, mask in zip(pair, masks, strict=True)]
        for number in range(len(self.convolutions)):
            pair, scores = self._block(number, pair, masks)
            found.update(scores)
            vectors, weights = self._reduce(number, pair, masks)
            found.update(weights)
            match = match_matrix(*(vector[:, None] for vector in vectors))[:, 0]
            features += [*vectors, match]
        return pair, ops.concatenate(features, axis=-1), found

    def _reduce(self, number, pair, masks):
        """Returns a vector of each sentence after a block, `(B, filters)`, and weights by name."""
        return [_mean(x, mask) for x, mask in zip(pair, masks, strict=True)], {}

    def _block(self, number, pair, masks):
        found, (width,) = {}, self.convolutions[number].kernel_size
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
                window_sums(zero_padding(x, mask), width) / width
                for x, mask in zip(pair, seen, strict=True)
            ]
        return [zero_padding(x, mask) for x, mask in zip(pair, masks, strict=True)], found

    def _convolve(self, number, x):
        # For empty batches, TensorFlow's convolution has a different depth.
        (width,) = self.convolutions[number].kernel_size
        padded = pad_empty_axis(_pad(x, width), axis=0)
        return self.convolutions[number](padded)[: ops.shape(x)[0]]


def zero_padding(x, mask):
    """Returns vectors `(B, T, D)` that are 0 where the mask `(B, T)` is False."""
    return ops.where(mask[..., None], x, 0)


def _pad(x, width):
    """Pads the steps with `width - 1` zeros on both sides."""
    return ops.pad(x, ((0, 0), (width - 1, width - 1), *[(0, 0)] * (len(x.shape) - 2)))


def _mean(x, mask):
    """Returns the mean over real steps, float32 `(B, D)`; padding is 0."""
    count = ops.sum(ops.cast(mask, "float32"), axis=1)[:, None]
    return ops.sum(ops.cast(x, "float32"), axis=1) / ops.maximum(count, 1.0)
