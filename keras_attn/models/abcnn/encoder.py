"""ABCNN for two sentences in one row."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.models.abcnn.attentive_pooling import AttentivePooling
from keras_attn.models.abcnn.blocks import ABCNNBlocks
from keras_attn.models.text_encoder import TextEncoder
from keras_attn.ops import kernels, take_positions
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.types import Shape, Tensor

REDUCTIONS = "mean", "attention"
_KERNELS = kernels.of_backend("tensorflow")


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNNEncoder(ABCNNBlocks, TextEncoder):
    """The convolutional network of `ABCNN` for two sentences in one row, without a task head.

    A row is `[CLS] first sentence [SEP] second sentence [SEP]`, as for BERT. The sentences are
    separated by their segment ids, without the special tokens, and encoded as in `ABCNN`.

    Args:
        vocabulary_size: Vocabulary size.
        hidden_dim: Number of filters D of the convolutions.
        max_length: Maximum row length in tokens; required by variants 1 and 3 only.
        variant: 0: no attention (BCNN); 1: attention before the convolution, see `ABCNN1Attention`;
            2: attention in the pooling, see `ABCNN2Pooling`; 3: both.
        width: Size of the convolution kernels and of the pooling windows.
        num_layers: Number N of blocks.
        reduce: Vector of a sentence after each block: `"mean"`, or `"attention"` to the tokens that
            match the other sentence: the rows of `tanh(X U Y^T)` are reduced by their maximum, and
            its softmax weights the tokens of X (dos Santos et al., Attentive Pooling Networks,
            2016, section 4).
        share_weights: See `ABCNN1Attention`.
        normalize: See `ABCNN2Pooling`.
        embedding_dim: Embedding size; defaults to D.
        dropout: Dropout rate of the embeddings.
        embedding_stddev: Standard deviation of the initial token embeddings.
        initializer_range: Standard deviation of the initial weights of task heads.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`, two sentences.
            `segment_ids` `(B, T)`, 1 for the second sentence and the `[SEP]` after it.
            `padding_mask` `(B, T)`, optional; 1 for real tokens, which may be at any position.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`, the vectors of the last block, 0 at special
        tokens and padding; `pooled_output` `(B, N (2 D + 1))` in float32, a vector of each
        sentence and their match score after each block; and for each block i the match scores of
        the tokens of the two sentences, counted from 0 without special tokens: with variants 1 and
        3 `input_attention_i` `(B, T, T)`, with 2 and 3 `pooling_attention_i`
        `(B, T + width - 1, T + width - 1)`; with `reduce="attention"` the weights
        `first_attention_i` and `second_attention_i` `(B, T)`. In the graphs of a run, without XLA,
        the longest sentences of the batch take the place of T.

    Raises:
        ValueError: If an argument is out of range, missing or unused.

    Reference:
        Yin et al., ABCNN: Attention-Based Convolutional Neural Network for Modeling Sentence Pairs,
        2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ABCNNEncoder
        >>> model = ABCNNEncoder(50, 8, max_length=7, variant=1, seed=0)
        >>> found = model({"token_ids": np.array([[2, 4, 7, 3, 4, 9, 3]]),
        ...                "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 1]])})
        >>> matches = np.array(found["input_attention_0"])[0, :2, :2]
        >>> print((matches == 1).astype(int))  # both texts begin with token 4
        [[1 0]
         [0 0]]
    """

    INPUTS = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), "BT")
    REQUIRED = ("token_ids", "segment_ids")

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 50,
        max_length: int | None = None,
        variant: int = 3,
        width: int = 4,
        num_layers: int = 1,
        reduce: str = "mean",
        share_weights: bool = True,
        normalize: bool = False,
        embedding_dim: int | None = None,
        dropout: float = 0.1,
        embedding_stddev: float = 1.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "abcnn_encoder",
        **kwargs: Any,
    ) -> None:
        sizes = vocabulary_size, hidden_dim, embedding_dim
        stddevs = embedding_stddev, initializer_range
        super().__init__(*sizes, *stddevs, dropout, seed, name=name, **kwargs)
        self._set_variant(variant, share_weights, normalize)
        require_sizes(width=width, num_layers=num_layers)
        if reduce not in REDUCTIONS:
            raise ValueError(
                f"ABCNNEncoder: reduce must be one of {', '.join(REDUCTIONS)}. "
                f"Received: reduce={reduce!r}"
            )
        if variant in (1, 3):
            require_sizes(max_length=max_length)
        else:
            reject_unused("variant 1 or 3", max_length=(max_length, None))
        self.max_length = max_length
        self.width = width
        self.num_layers = num_layers
        self.reduce = reduce

    @property
    def pooled_dim(self) -> int:
        """Size of `pooled_output`."""
        return self.num_layers * (2 * self.hidden_dim + 1)

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, dropout_seed, *seeds = split_seed(self.seed, 2 + 3 * self.num_layers)
        self._build_embedding(embedding_seed, dropout_seed)
        sizes = self.num_layers, self.embedding_dim, self.hidden_dim, self.width, self.max_length
        self._build_blocks(*sizes, seeds)
        self.reductions = []
        if self.reduce == "attention":
            self.reductions = [
                AttentivePooling(seed=seeds.pop(), dtype=self.dtype_policy, name=f"reduction_{i}")
                for i in range(self.num_layers)
            ]
        for reduction in self.reductions:
            reduction.build((None, None, self.hidden_dim), (None, None, self.hidden_dim))
        self.built = True

    def _depths(self):
        layers = self.attentions, self.convolutions, self.reductions
        return zip(*filter(None, layers), strict=True)

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        second = ops.cast(inputs["segment_ids"], "bool")
        real = as_mask(inputs.get("padding_mask"), "padding_mask")
        real = ops.ones_like(second) if real is None else real
        sentences = [
            _without_ends(ops.logical_and(real, ops.logical_not(second)), 1, 1),  # [CLS], [SEP]
            _without_ends(ops.logical_and(real, second), 0, 1),
        ]
        orders = [_trimmed(_positions(mask), mask) for mask in sentences]
        masks = [
            ops.take_along_axis(sentence, order, axis=1)
            for sentence, order in zip(sentences, orders, strict=True)
        ]
        pair = [
            self._embed(ops.take_along_axis(inputs["token_ids"], order, axis=1), training)
            for order in orders
        ]
        pair, features, attention = self._encode_pair(pair, masks)
        output = sum(
            _to_positions(x, sentence) for x, sentence in zip(pair, sentences, strict=True)
        )
        return {"sequence_output": output, "pooled_output": features, **attention}

    def attention_tokens(
        self, name: str, tokens: Sequence[str], segments: Sequence[int]
    ) -> tuple[list[str], list[str]]:
        """Returns the tokens of the two axes of an attention map, for `attention_page`.

        Args:
            name: Name of the map in `attention_maps`.
            tokens: Tokens of a row without padding.
            segments: Their segment ids.

        Returns:
            `(tokens of the rows, tokens of the columns)`: the sentences, for a pooling layer the
            windows of `width` tokens that the convolution sees, and for the weights of a sentence
            one row.
        """
        count = sum(segment == 0 for segment in segments)
        first, second = list(tokens[1 : count - 1]), list(tokens[count:-1])
        *_, layer, number = ["", *name.split("/")]
        if layer.startswith("reduction"):  # one row
            return ["all"], second if number == "1" else first
        if number.startswith("pooling"):
            return self._windows(first), self._windows(second)
        return first, second

    def _windows(self, tokens):
        starts = range(1 - self.width, len(tokens))
        return [" ".join(tokens[max(0, start) : start + self.width]) for start in starts]

    def _reduce(self, number, pair, masks):
        if not self.reductions:
            return super()._reduce(number, pair, masks)
        *vectors, first, second = self.reductions[number](
            *pair, *masks, return_attention_scores=True
        )
        weights = {f"first_attention_{number}": first, f"second_attention_{number}": second}
        return vectors, weights

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "variant": self.variant,
            "width": self.width,
            "num_layers": self.num_layers,
            "reduce": self.reduce,
            "share_weights": self.share_weights,
            "normalize": self.normalize,
        }


def _without_ends(mask, start, end):
    """Removes the first and last True of each row from a mask `(B, T)`."""
    numbers = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    inside = ops.logical_and(numbers > start, numbers <= numbers[:, -1:] - end)
    return ops.logical_and(mask, inside)


def _positions(mask):
    """Returns the positions where a mask `(B, T)` is True, and then the others: int `(B, T)`."""
    length = ops.shape(mask)[1]
    positions = ops.arange(length, dtype="int32")
    return ops.argsort(ops.where(mask, positions, positions + length), axis=1)


def _trimmed(positions, mask):
    """Removes the columns that no row of the mask needs, where XLA does not fix the shapes.

    Without it, each sentence would have the length of the row: the matches of two sentences, which
    are most of the work, are then about four times as many.
    """
    if _KERNELS is None or not _KERNELS.graphs.in_graph_without_xla():
        return positions
    counts = ops.sum(ops.cast(mask, "int32"), axis=1)
    return positions[:, : ops.max(counts, initial=1)]


def _to_positions(x, mask):
    """Moves the first vectors of each row of `(B, T, D)` to the positions of a mask `(B, T)`."""
    places = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
    moved = take_positions(x, ops.maximum(places, 0))
    return ops.where(mask[..., None], moved, 0)
