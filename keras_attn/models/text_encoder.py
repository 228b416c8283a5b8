"""Base class of encoders without Transformer layers: token embeddings with dropout."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.padded_rnn import add_embedding
from keras_attn.layers.seeds import drop, dropout_generator
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes


class TextEncoder(DeclaredInputs, keras.Model):
    """Token embeddings with dropout; the docstrings of the subclasses document the arguments.

    The `build` of a subclass calls `_build_embedding` before it creates its layers. `_depths()`
    returns the layers of each depth between embeddings and output, for `variables_by_depth`.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        embedding_dim: int | None,
        embedding_stddev: float,
        initializer_range: float,
        dropout: float,
        seed: int | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_sizes(vocabulary_size=vocabulary_size, hidden_dim=hidden_dim)
        require_sizes(optional=True, embedding_dim=embedding_dim)
        require_not_negative(embedding_stddev=embedding_stddev, initializer_range=initializer_range)
        require_rates(dropout=dropout)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim or hidden_dim
        self.embedding_stddev = embedding_stddev
        self.initializer_range = initializer_range
        self.dropout = dropout
        self.seed = seed

    def _build_embedding(self, seed, dropout_seed):
        sizes = self.vocabulary_size, self.embedding_dim
        self.token_embedding = add_embedding(
            self, "token_embedding", *sizes, seed, self.embedding_stddev
        )
        self.dropout_generator = dropout_generator(self.dropout, dropout_seed, "dropout")

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from input to output: embeddings, each layer, and the rest.

        Returns:
            Lists of variables, two more than there are layers.
        """
        layers = [[v for layer in depth for v in layer.variables] for depth in self._depths()]
        depths = [[self.token_embedding], *layers]
        known = {v.path for depth in depths for v in depth}
        return [*depths, [v for v in self.variables if v.path not in known]]

    def _embed(self, token_ids, training=None):
        x = ops.take(self.token_embedding, token_ids, axis=0)
        return self._drop(ops.cast(x, self.compute_dtype), training)

    def _drop(self, x, training):
        return drop(x, self.dropout, self.dropout_generator, training)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "embedding_dim": self.embedding_dim,
            "embedding_stddev": self.embedding_stddev,
            "initializer_range": self.initializer_range,
            "dropout": self.dropout,
            "seed": self.seed,
        }
