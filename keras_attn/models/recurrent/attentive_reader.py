"""Recurrent encoder of a passage with attention to a question."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attention import Attention
from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.padded_rnn import bidirectional, run_rnn
from keras_attn.layers.seeds import split_seed
from keras_attn.models.text_encoder import TextEncoder
from keras_attn.ops.masks import as_mask
from keras_attn.types import Shape, Tensor

QUESTIONS = "attention", "vector"


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentiveReader(TextEncoder):
    """Encodes a passage for a question: at each token with the question words that it attends to.

    A BiLSTM encodes question and passage separately, `h_t`. A second BiLSTM reads `[h_t; c_t]`,
    where `c_t` is either attention of token t to the question,
    `c_t = sum_j softmax_j(h_t^T W q_j) q_j`, or one vector of the question at every token.

    Args:
        vocabulary_size: Vocabulary size.
        hidden_dim: Size D of the vectors, half of it for each direction.
        question: `"attention"`, or `"vector"` for one question vector, by attention pooling with a
            learned query.
        embedding_dim: Embedding size; defaults to D.
        dropout: Dropout rate of the embeddings and of the inputs of the second BiLSTM.
        embedding_stddev: Standard deviation of the initial token embeddings.
        initializer_range: Standard deviation of the initial weights of task heads.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`, a question and a passage.
            `segment_ids` `(B, T)`, 1 for the passage.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`, 0 at padding, and `question_attention`:
        `(B, T, T)` weights of the question tokens for each token, or `(B, T)` weights of the
        question vector.

    Raises:
        ValueError: If an argument is out of range or unknown, or D is odd.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import AttentiveReader
        >>> model = AttentiveReader(50, 8, seed=0)
        >>> found = model({"token_ids": np.array([[2, 4, 3, 7, 9]]),
        ...                "segment_ids": np.array([[0, 0, 0, 1, 1]])})
        >>> seen = np.array(found["question_attention"])[0, 4] > 0
        >>> print(found["sequence_output"].shape, seen * 1)
        (1, 5, 8) [1 1 1 0 0]
    """

    INPUTS = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), "BT")
    REQUIRED = ("token_ids", "segment_ids")

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 128,
        question: str = "attention",
        embedding_dim: int | None = None,
        dropout: float = 0.1,
        embedding_stddev: float = 1.0,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "attentive_reader",
        **kwargs: Any,
    ) -> None:
        sizes = vocabulary_size, hidden_dim, embedding_dim
        stddevs = embedding_stddev, initializer_range
        super().__init__(*sizes, *stddevs, dropout, seed, name=name, **kwargs)
        if question not in QUESTIONS:
            raise ValueError(
                f"AttentiveReader: question must be one of {', '.join(QUESTIONS)}. "
                f"Received: question={question!r}"
            )
        if hidden_dim % 2:
            raise ValueError(
                f"AttentiveReader: hidden_dim must be even. Received: hidden_dim={hidden_dim}"
            )
        self.question = question

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        embedding_seed, encoder_seed, attention_seed, reader_seed, dropout_seed = split_seed(
            self.seed, 5
        )
        self._build_embedding(embedding_seed, dropout_seed)
        units, policy = self.hidden_dim // 2, self.dtype_policy
        self.encoder = bidirectional(keras.layers.LSTM, units, encoder_seed, policy, "encoder")
        self.reader = bidirectional(keras.layers.LSTM, units, reader_seed, policy, "reader")
        self.attention: Any
        vectors = (None, None, self.hidden_dim)
        if self.question == "attention":
            self.attention = Attention(
                "bilinear", seed=attention_seed, dtype=policy, name="attention"
            )
            self.attention.build(vectors, vectors)
        else:
            self.attention = AttentionPooling(seed=attention_seed, dtype=policy, name="attention")
            self.attention.build(vectors)
        self.encoder.build((None, None, self.embedding_dim))
        self.reader.build((None, None, 2 * self.hidden_dim))
        self.built = True

    def _depths(self):
        return [[self.encoder], [self.reader]]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        passage = ops.cast(inputs["segment_ids"], "bool")
        real = as_mask(inputs.get("padding_mask"), "padding_mask")
        real = ops.ones_like(passage) if real is None else real
        passage = ops.logical_and(passage, real)
        question = ops.logical_and(ops.logical_not(passage), real)
        x = self._embed(inputs["token_ids"], training)
        # The outputs are 0 outside the mask.
        hidden = sum(
            run_rnn(self.encoder, x, mask, training=training)[0] for mask in (question, passage)
        )
        if self.question == "attention":
            context, weights = self.attention(
                hidden, hidden, value_mask=question, return_attention_scores=True
            )
        else:
            vector, weights = self.attention(hidden, mask=question, return_attention_scores=True)
            context = ops.broadcast_to(vector[:, None], ops.shape(hidden))
        both = self._drop(ops.concatenate([hidden, context], axis=-1), training)
        output, *_ = run_rnn(self.reader, both, real, training=training)
        return {"sequence_output": output, "question_attention": weights}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "question": self.question}
