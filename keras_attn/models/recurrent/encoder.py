"""Recurrent text encoder."""

from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.padded_rnn import bidirectional, both_directions, recurrent, run_rnn
from keras_attn.layers.recurrent import IntraAttentionLSTMCell, SequenceToVector
from keras_attn.layers.seeds import split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.models.building import needs_weights
from keras_attn.models.text_encoder import TextEncoder
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.ops.products import linear
from keras_attn.types import Shape, Tensor

# Number of layers and hidden size.
RECURRENT_SIZES = {"tiny": (1, 128), "mini": (1, 256), "small": (2, 512)}
CELLS = "lstm", "gru", "lstmn"
REDUCTIONS = "attention", "query_attention", "last", "mean", "max"


@keras.saving.register_keras_serializable(package="keras_attn")
class RecurrentEncoder(TextEncoder):
    """Recurrent encoder without a task head: token ids to vectors.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of recurrent layers.
        hidden_dim: Hidden size D, half of it for each direction of a bidirectional encoder.
        embedding_dim: Embedding size; defaults to D.
        cell: `"lstm"`, `"gru"`, or `"lstmn"`, an LSTM that attends to its own past states (see
            `IntraAttentionLSTMCell`).
        tape_length: Number of past states that `"lstmn"` attends to; defaults to 32.
        reduce: How the vectors are reduced to `pooled_output`: `"attention"`, with a learned query
            (see `AttentionPooling`); `"query_attention"`, with the last states as query; `"last"`,
            the last states of both directions; `"mean"` or `"max"`.
        bidirectional: Whether there are two directions. A unidirectional encoder with
            `embedding_dim` D is the backbone of `RecurrentLanguageModel`.
        dropout: Dropout rate of the embeddings and of the output of each layer.
        embedding_stddev: Standard deviation of the initial token embeddings.
        initializer_range: Standard deviation of the initial weights of task heads.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `padding_mask` `(B, T)`, optional; 1 for real tokens, which may be at any position.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`, 0 at padding, `pooled_output` `(B, D)`, and
        `pooling_attention` `(B, T)` if the pooling has attention weights.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, or D is odd.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import RecurrentEncoder
        >>> model = RecurrentEncoder(50, 1, 8, reduce="last", seed=0)
        >>> texts = [np.array([ids]) for ids in ([4, 7, 9], [4, 7, 9, 0])]
        >>> vectors = [model({"token_ids": ids, "padding_mask": np.sign(ids)})["pooled_output"]
        ...            for ids in texts]
        >>> print(vectors[0].shape, np.abs(vectors[0] - vectors[1]).max().round(6))
        (1, 8) 0.0
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int = 1,
        hidden_dim: int = 128,
        embedding_dim: int | None = None,
        cell: str = "lstm",
        tape_length: int | None = None,
        reduce: str = "attention",
        bidirectional: bool = True,
        dropout: float = 0.1,
        embedding_stddev: float = 1.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "recurrent_encoder",
        **kwargs: Any,
    ) -> None:
        sizes = vocabulary_size, hidden_dim, embedding_dim
        stddevs = embedding_stddev, initializer_range
        super().__init__(*sizes, *stddevs, dropout, seed, name=name, **kwargs)
        require_sizes(num_layers=num_layers)
        require_sizes(optional=True, tape_length=tape_length)
        for argument, value, choices in (("cell", cell, CELLS), ("reduce", reduce, REDUCTIONS)):
            if value not in choices:
                raise ValueError(
                    f"RecurrentEncoder: {argument} must be one of {', '.join(choices)}. "
                    f"Received: {argument}={value!r}"
                )
        if bidirectional and hidden_dim % 2:
            raise ValueError(
                "RecurrentEncoder: hidden_dim of a bidirectional encoder must be even. "
                f"Received: hidden_dim={hidden_dim}"
            )
        if cell != "lstmn":
            reject_unused('cell="lstmn"', tape_length=(tape_length, None))
        self.num_layers = num_layers
        self.cell = cell
        self.tape_length = tape_length or (32 if cell == "lstmn" else None)
        self.reduce = reduce
        self.bidirectional = bidirectional

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates a model of one of the sizes in `RECURRENT_SIZES`.

        Args:
            size: `"tiny"`, `"mini"` or `"small"`.
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in RECURRENT_SIZES:
            raise ValueError(
                f"{cls.__name__}: size must be one of {', '.join(RECURRENT_SIZES)}. "
                f"Received: size={size}"
            )
        shape = dict(zip(("num_layers", "hidden_dim"), RECURRENT_SIZES[size], strict=True))
        return cls(vocabulary_size, **{**shape, **kwargs})

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, pooling_seed, dropout_seed, *seeds = split_seed(
            self.seed, self.num_layers + 3
        )
        self._build_embedding(embedding_seed, dropout_seed)
        self.recurrent_layers = [
            self._recurrent_layer(seed, f"layer_{i}") for i, seed in enumerate(seeds)
        ]
        depth = self.embedding_dim
        for layer in self.recurrent_layers:
            layer.build((None, None, depth))
            depth = self.hidden_dim
        self.reduction: Any = None
        if self.reduce.endswith("attention"):
            self.reduction = AttentionPooling(
                score="query" if self.reduce == "query_attention" else "context",
                seed=pooling_seed,
                dtype=self.dtype_policy,
                name="pooling",
            )
        elif self.reduce != "last":
            self.reduction = SequenceToVector(self.reduce, dtype=self.dtype_policy, name="pooling")
        if self.reduction is not None:
            self.reduction.build((None, None, self.hidden_dim))
        self.built = True

    def _recurrent_layer(self, seed, name):
        units = self.hidden_dim // 2 if self.bidirectional else self.hidden_dim
        if self.cell != "lstmn":
            kind = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU}[self.cell]
            if self.bidirectional:
                return bidirectional(kind, units, seed, self.dtype_policy, name)
            return recurrent(kind, units, seed, dtype=self.dtype_policy, name=name)
        if not self.bidirectional:
            return self._lstmn(units, seed, name)
        forward_seed, backward_seed = split_seed(seed, 2)
        return both_directions(
            self._lstmn(units, forward_seed, "forward"),
            self._lstmn(units, backward_seed, "backward", go_backwards=True),
            dtype=self.dtype_policy,
            name=name,
        )

    def _lstmn(self, units, seed, name, **kwargs):
        cell = IntraAttentionLSTMCell(
            units, self.tape_length, seed=seed, dtype=self.dtype_policy, name="cell"
        )
        return keras.layers.RNN(
            cell,
            return_sequences=True,
            return_state=True,
            zero_output_for_mask=True,
            dtype=self.dtype_policy,
            name=name,
            **kwargs,
        )

    def _depths(self):
        return [[layer] for layer in self.recurrent_layers]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        mask = as_mask(inputs.get("padding_mask"), "padding_mask")
        x = self._embed(inputs["token_ids"], training)
        for layer in self.recurrent_layers:
            x, *states = run_rnn(layer, x, mask, training=training)
            x = self._drop(x, training)
        last = states[0]  # the first state is the last output
        if self.bidirectional:
            last = ops.concatenate([last, states[len(states) // 2]], axis=-1)
        if self.reduce == "last":
            return {"sequence_output": x, "pooled_output": last}
        if not self.reduce.endswith("attention"):
            return {"sequence_output": x, "pooled_output": self.reduction(x, mask=mask)}
        query = {"query": last} if self.reduce == "query_attention" else {}
        pooled, weights = self.reduction(x, mask=mask, return_attention_scores=True, **query)
        return {"sequence_output": x, "pooled_output": pooled, "pooling_attention": weights}

    @needs_weights
    def make_cache(self, batch_size: int, length: int) -> list[list[Tensor]]:
        """Returns the initial states of `decode`.

        Args:
            batch_size: B.
            length: Maximum length of the rows; unused, as the size of the states is fixed.
        """
        return [list(layer.get_initial_state(batch_size)) for layer in self.recurrent_layers]

    @needs_weights
    def decode(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: list[list[Tensor]],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Returns the vectors of tokens that follow the tokens in the cache.

        Args:
            token_ids: Integers `(B, T)`, the tokens from index `index` of their rows.
            index: Integer scalar.
            cache: As returned by `make_cache` or the previous call.
            padding_mask: Integers `(B, length)`, 0 for padding. None: no padding.
            position_ids: Unused.

        Returns:
            `(vectors (B, T, D), cache)`.
        """
        if padding_mask is not None:
            shape = ops.shape(token_ids)
            padding_mask = ops.cast(ops.slice(padding_mask, (0, index), shape), "bool")
        x = self._embed(token_ids)
        new = []
        for layer, states in zip(self.recurrent_layers, cache, strict=True):
            x, *states = run_rnn(layer, x, padding_mask, states)
            new.append(states)
        return x, new

    @needs_weights
    def logits_kernel(self, rows: int | None = None) -> Tensor:
        """Returns the transposed embedding matrix `(D, V)`; `rows` is unused."""
        return ops.transpose(ops.cast(self.token_embedding, self.compute_dtype))

    @needs_weights
    def token_products(self, hidden: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Multiplies vectors `(..., D)` with the embedding matrix, which gives logits `(..., V)`.

        Args:
            hidden: The vectors.
            kernel: Result of `logits_kernel`, if available.
        """
        return linear(hidden, self.logits_kernel() if kernel is None else kernel)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "cell": self.cell,
            "tape_length": self.tape_length,
            "reduce": self.reduce,
            "bidirectional": self.bidirectional,
        }
