"""Recurrent text classifier with optional attention."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.padded_rnn import bidirectional, run_rnn
from keras_attn.layers.recurrent import SequenceToVector
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.models.label_loss import LabelLoss
from keras_attn.models.padding import real_tokens
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.types import Shape, Tensor

REDUCTIONS = "attention", "last", "mean", "max", "self_attention"


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentiveLSTMClassifier(LabelLoss, keras.Model):
    """Text classifier that reduces the states of a bidirectional LSTM to one vector.

    Args:
        vocabulary_size: Vocabulary size.
        num_classes: Number of classes C.
        embedding_dim: Embedding size.
        units: Units U of the LSTM, per direction.
        reduce: How `(B, T, 2 U)` is reduced to `(B, 2 U)`: `"attention"`, see `AttentionPooling`;
            `"last"`, the last states of both directions; `"mean"` or `"max"` over real steps;
            `"self_attention"`, the mean after self-attention.
        attention_units: Hidden units of `"attention"`; defaults to 2 U.
        num_heads: Number of heads of `"self_attention"`; divides 2 U.
        dropout: Dropout rate of the embeddings and of the reduced vector.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `padding_mask` `(B, T)`, optional; 1 for real tokens. By default, id 0 is padding.
            For losses and metrics also `label` `(B,)`; `sample_weight` `(B,)`, optional.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` and `pooled_output` `(B, 2 U)`, `logits` `(B, C)` in
        float32, and the attention weights `attention`: `(B, T)` for `"attention"`, `(B, H, T, T)`
        for `"self_attention"`. `sequence_output` `(B, T, 2 U)` is 0 at padding.

    `fit` requires a dataset of such dictionaries. Loss `label`: cross-entropy; metric `accuracy`.

    Raises:
        ValueError: If an argument is out of range or unknown.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import AttentiveLSTMClassifier
        >>> model = AttentiveLSTMClassifier(50, 3, embedding_dim=4, units=4, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 0, 0]])})
        >>> print(found["logits"].shape, np.array(found["attention"]).round(1))
        (1, 3) [[0.5 0.5 0.  0. ]]
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        embedding_dim: int = 100,
        units: int = 64,
        reduce: str = "attention",
        attention_units: int | None = None,
        num_heads: int = 2,
        dropout: float = 0.0,
        seed: int | None = None,
        name: str | None = "attentive_lstm_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.sizes = {
            "vocabulary_size": vocabulary_size,
            "num_classes": num_classes,
            "embedding_dim": embedding_dim,
            "units": units,
            "num_heads": num_heads,
        }
        require_sizes(**self.sizes)
        require_sizes(optional=True, attention_units=attention_units)
        if reduce not in REDUCTIONS:
            raise ValueError(
                f"AttentiveLSTMClassifier: reduce must be one of {', '.join(REDUCTIONS)}. "
                f"Received: reduce={reduce!r}"
            )
        if reduce != "attention":
            reject_unused('reduce="attention"', attention_units=(attention_units, None))
        if 2 * units % num_heads:
            raise ValueError(
                "AttentiveLSTMClassifier: num_heads must divide 2 * units. "
                f"Received: num_heads={num_heads}, units={units}"
            )
        require_rates(dropout=dropout)
        self.reduce = reduce
        self.attention_units = attention_units
        self.dropout = dropout
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        sizes, depth = self.sizes, 2 * self.sizes["units"]
        *seeds, embedding_dropout, vector_dropout = split_seed(self.seed, 6)
        embedding_seed, lstm_seed, attention_seed, dense_seed = seeds
        self.embedding = keras.layers.Embedding(
            sizes["vocabulary_size"],
            sizes["embedding_dim"],
            embeddings_initializer=seeded_initializer("uniform", embedding_seed),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.lstm = bidirectional(
            keras.layers.LSTM, sizes["units"], lstm_seed, self.dtype_policy, "lstm"
        )
        self.attention = None
        shared = {"seed": attention_seed, "dtype": self.dtype_policy, "name": "attention"}
        if self.reduce == "attention":
            self.attention = AttentionPooling(self.attention_units, **shared)
            self.attention.build((None, None, depth))
        elif self.reduce == "self_attention":
            heads = sizes["num_heads"]
            self.attention = MultiHeadAttention(heads, depth // heads, **shared)
            self.attention.build((None, None, depth), (None, None, depth))
        self.pooling = None
        if self.reduce in ("mean", "max", "self_attention"):
            self.pooling = SequenceToVector(
                "max" if self.reduce == "max" else "mean", dtype=self.dtype_policy, name="pooling"
            )
            self.pooling.build((None, None, depth))
        self.logits_dense = keras.layers.Dense(
            sizes["num_classes"],
            dtype="float32",
            name="logits_dense",
            kernel_initializer=seeded_initializer("glorot_uniform", dense_seed),
        )
        self.embedding.build(None)
        self.lstm.build((None, None, sizes["embedding_dim"]))
        self.logits_dense.build((None, depth))
        self.seed_generators = [
            dropout_generator(self.dropout, seed, f"{name}_dropout")
            for name, seed in (("embedding", embedding_dropout), ("vector", vector_dropout))
        ]
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        mask = real_tokens(inputs)
        x = drop(
            self.embedding(inputs["token_ids"]), self.dropout, self.seed_generators[0], training
        )
        hidden, forward, _, backward, _ = run_rnn(self.lstm, x, mask)
        last = ops.concatenate([forward, backward], axis=-1)
        vector, attention = self._reduce(hidden, last, mask)
        dropped = drop(vector, self.dropout, self.seed_generators[1], training)
        return {
            "sequence_output": hidden,
            "pooled_output": vector,
            "logits": self.logits_dense(dropped),
            **attention,
        }

    def _reduce(self, hidden, last, mask):
        if self.reduce == "last":
            return last, {}
        if self.reduce == "attention":
            vector, weights = self.attention(hidden, mask=mask, return_attention_scores=True)
            return vector, {"attention": weights}
        found = {}
        if self.reduce == "self_attention":
            hidden, weights = self.attention(
                hidden, hidden, query_mask=mask, value_mask=mask, return_attention_scores=True
            )
            found = {"attention": weights}
        return self.pooling(hidden, mask=mask), found

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            "reduce": self.reduce,
            "attention_units": self.attention_units,
            "dropout": self.dropout,
            "seed": self.seed,
        }
