"""The ELECTRA encoder."""

from typing import Any, Self

import keras

from keras_attn.layers.neighbours import NeighbourProjection
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.bert.encoder import BertEncoder
from keras_attn.ops.arguments import require_sizes
from keras_attn.types import Activation, Shape, Tensor

# Number of layers, hidden size, number of heads: small, base and large as in
# google-research/electra.
ELECTRA_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (12, 256, 4),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
EMBEDDING_DIMS = {"mini": 128, "small": 128}  # of the others, the hidden size


@keras.saving.register_keras_serializable(package="keras_attn")
class ElectraEncoder(BertEncoder):
    """ELECTRA encoder without a task head: token ids to vectors.

    A post-norm `BertEncoder` without pooler, whose embeddings may have another size E than the
    hidden states. A dense layer then projects the normalized embeddings to the hidden size D.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of encoder layers.
        hidden_dim: Hidden size D.
        num_heads: Number of attention heads H per layer; divides D.
        embedding_dim: Embedding size E; defaults to D. If it is D, there is no projection.
        intermediate_dim: Feed-forward size; defaults to 4 D.
        dropout: Dropout rate of the embeddings and of the output of each sublayer.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        max_length: Number of learned positions, the maximum input length.
        num_segments: Number of segment types; 0: no segment embeddings.
        activation: Activation of the feed-forward layers; see `BertEncoder`.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the initial weights.
        initial_attention: `"uniform"` or `"neighbours"`; see `BertEncoder`.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: See `BertEncoder`.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, D is not a multiple of H, or T exceeds
            `max_length`.

    Reference:
        Clark et al., ELECTRA, 2020, section 3.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ElectraEncoder
        >>> model = ElectraEncoder.from_size("mini", vocabulary_size=50, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 9]])})
        >>> print(found["sequence_output"].shape, tuple(model.token_embedding.shape))
        (1, 3, 256) (50, 128)
        >>> print(np.std(found["sequence_output"], axis=-1).round(2))  # it ends in a LayerNorm
        [[1. 1. 1.]]
    """

    SIZES = ELECTRA_SIZES

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        num_heads: int,
        embedding_dim: int | None = None,
        intermediate_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        max_length: int = 512,
        num_segments: int = 2,
        activation: Activation = "gelu_erf",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        initial_attention: str = "uniform",
        seed: int | None = None,
        name: str | None = "electra_encoder",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            num_layers,
            hidden_dim,
            num_heads,
            intermediate_dim=intermediate_dim,
            dropout=dropout,
            attention_dropout=attention_dropout,
            max_length=max_length,
            num_segments=num_segments,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            initial_attention=initial_attention,
            use_pooler=False,
            seed=seed,
            name=name,
            **kwargs,
        )
        require_sizes(optional=True, embedding_dim=embedding_dim)
        self.embedding_dim = embedding_dim or hidden_dim

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates an encoder of a named size.

        Args:
            size: `"tiny"`, `"mini"`, or one of google-research/electra: `"small"`, `"base"` or
                `"large"`.
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        own = {"embedding_dim": EMBEDDING_DIMS.get(size)}
        return super().from_size(size, vocabulary_size, **{**own, **kwargs})

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        super().build(input_shape)
        self.projection = None
        if self.embedding_dim != self.hidden_dim:
            (seed,) = split_seed(self.seed, 1, stream=3)
            neighbours = self.initial_attention == "neighbours"
            kind = NeighbourProjection if neighbours else keras.initializers.TruncatedNormal
            self.projection = keras.layers.Dense(
                self.hidden_dim,
                kernel_initializer=seeded_initializer(kind(stddev=self.initializer_range), seed),
                dtype=self.dtype_policy,
                name="projection",
            )
            self.projection.build((None, None, self.embedding_dim))

    def embed(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        x = super().embed(inputs, training)
        return x if self.projection is None else self.projection(x)

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), "embedding_dim": self.embedding_dim}
        fixed = ("norm_first", "use_pooler")
        return {name: value for name, value in config.items() if name not in fixed}
