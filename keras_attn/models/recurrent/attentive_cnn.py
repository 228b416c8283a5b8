"""Convolutional text encoder with attention pooling."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attentive_conv_pooling import AttentiveConvPooling
from keras_attn.layers.seeds import split_seed
from keras_attn.models.text_encoder import TextEncoder
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentiveCNN(TextEncoder):
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
        sizes = vocabulary_size, hidden_dim, embedding_dim
        stddevs = embedding_stddev, initializer_range
        super().__init__(*sizes, *stddevs, dropout, seed, name=name, **kwargs)
        require_sizes(kernel_size=kernel_size)
        if hidden_dim % 4:
            raise ValueError(
                "AttentiveCNN: hidden_dim must be a multiple of 4. "
                f"Received: hidden_dim={hidden_dim}"
            )
        self.kernel_size = kernel_size

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, pooling_seed, dropout_seed = split_seed(self.seed, 3)
        self._build_embedding(embedding_seed, dropout_seed)
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

    def _depths(self):
        return [[self.pooling]]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        mask = as_mask(inputs.get("padding_mask"), "padding_mask")
        x = self._embed(inputs["token_ids"], training)
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
        return {**super().get_config(), "kernel_size": self.kernel_size}
