"""Convolutional text encoder with attention pooling."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attentive_conv_pooling import AttentiveConvPooling
from keras_attn.layers.padded_rnn import add_embedding
from keras_attn.layers.seeds import drop, dropout_generator, split_seed
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentiveCNN(DeclaredInputs, keras.Model):
    """Convolution over the words beside a BiLSTM, whose last states are the query of the pooling.

    Each word has the vector `[c_t; h_t]` of a convolution and the BiLSTM, each of size D / 2. The
    text has the vector `[sum_t a_t c_t; s]`, with attention weights a for the last states s (see
    `AttentiveConvPooling`).

    Args:
        vocabulary_size: Vocabulary size.
        hidden_dim: Size D of the vectors, a multiple of 4.
        kernel_size: Kernel size of the convolution, in tokens.
        embedding_dim: Embedding size; defaults to D.
        dropout: Dropout rate of the embeddings.
        embedding_stddev: Standard deviation of the initial token embeddings.
        initializer_range: Standard deviation of the initial weights of task heads.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`, 0 at padding, `pooled_output` `(B, D)` and
        `pooling_attention` `(B, T)`.

    Raises:
        ValueError: If an argument is out of range or D is not a multiple of 4.

    Reference:
        Er et al., Attention Pooling-based Convolutional Neural Network for Sentence Modelling,
        2016.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import AttentiveCNN
        >>> model = AttentiveCNN(50, 8, seed=0)
        >>> texts = [np.array([ids]) for ids in ([4, 7, 9], [4, 7, 9, 0])]
        >>> vectors = [model({"token_ids": ids, "padding_mask": np.sign(ids)})["pooled_output"]
        ...            for ids in texts]
        >>> print(vectors[0].shape, np.abs(vectors[0] - vectors[1]).max().round(6))
        (1, 8) 0.0
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 128,
        kernel_size: int = 3,
        embedding_dim: int | None = None,
        dropout: float = 0.1,
        embedding_stddev: float = 1.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "attentive_cnn",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(
            vocabulary_size=vocabulary_size, hidden_dim=hidden_dim, kernel_size=kernel_size
        )
        require_sizes(optional=True, embedding_dim=embedding_dim)
        require_rates(dropout=dropout)
        require_not_negative(embedding_stddev=embedding_stddev, initializer_range=initializer_range)
        if hidden_dim % 4:
            raise ValueError(
                "AttentiveCNN: hidden_dim must be a multiple of 4. "
                f"Received: hidden_dim={hidden_dim}"
            )
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.kernel_size = kernel_size
        self.embedding_dim = embedding_dim or hidden_dim
        self.dropout = dropout
        self.embedding_stddev = embedding_stddev
        self.initializer_range = initializer_range
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, pooling_seed, dropout_seed = split_seed(self.seed, 3)
        self.token_embedding = add_embedding(
            self,
            "token_embedding",
            self.vocabulary_size,
            self.embedding_dim,
            embedding_seed,
            self.embedding_stddev,
        )
        self.dropout_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.pooling = AttentiveConvPooling(
            self.hidden_dim // 2,
            self.kernel_size,
            self.hidden_dim // 4,
            seed=pooling_seed,
            dtype=self.dtype_policy,
            name="pooling",
        )
        self.pooling.build((None, None, self.embedding_dim))
        self.built = True

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from input to output: embeddings, layer, and the rest.

        Returns:
            3 lists of variables.
        """
        layer = {v.path for v in self.pooling.variables}
        first = self.token_embedding.path
        return [
            [self.token_embedding],
            list(self.pooling.variables),
            [v for v in self.variables if v.path not in layer and v.path != first],
        ]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        mask = as_mask(inputs.get("padding_mask"), "padding_mask")
        x = ops.take(self.token_embedding, inputs["token_ids"], axis=0)
        x = drop(ops.cast(x, self.compute_dtype), self.dropout, self.dropout_generator, training)
        features, hidden, state = self.pooling.encode(x, mask)
        pooled, weights = self.pooling.attention(
            features, mask=mask, query=state, return_attention_scores=True
        )
        if mask is not None:
            features = ops.where(mask[..., None], features, 0)
        return {
            "sequence_output": ops.concatenate([features, hidden], axis=-1),
            "pooled_output": ops.concatenate([pooled, state], axis=-1),
            "pooling_attention": weights,
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "kernel_size": self.kernel_size,
            "embedding_dim": self.embedding_dim,
            "dropout": self.dropout,
            "embedding_stddev": self.embedding_stddev,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }
