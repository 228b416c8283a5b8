"""BERT without a task."""

from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers import LearnedPositionEmbedding, TransformerEncoderLayer
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.neighbours import NeighbourPositions, neighbour_shifts
from keras_attn.layers.rematerialization import call_layer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.ops import combine_masks, pack_mask, take_positions
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.products import apply_rowwise, linear
from keras_attn.types import Activation, Shape, Tensor

# Layers, width, heads: the sizes of google-research/bert.
BERT_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class BertEncoder(DeclaredInputs, keras.Model):
    """BERT without a task: token ids to vectors.

    Token, position and segment embeddings are added, normalised and passed
    through Transformer encoder layers.

    Args:
        vocabulary_size: Rows V of the token table.
        num_layers: Number of encoder layers.
        hidden_dim: Width D.
        num_heads: Heads H of each layer; divides D.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        dropout: Share dropped from the embeddings and each sublayer's output.
        attention_dropout: Share of attention weights dropped; `dropout` if None.
        max_length: Rows of the position table; the longest input.
        num_segments: Rows of the segment table.
        activation: `"gelu_tanh"` (google-research/bert), `"gelu_erf"` (Hugging
            Face's `"gelu"`), a name Keras knows, or a function.
        norm_first: Norm before each sublayer and after the last layer, instead
            of after each sublayer.
        layer_norm_epsilon: Added to the variance.
        initializer_range: Standard deviation of the initial weights.
        initial_attention: `"uniform"`, as BERT; `"neighbours"`: each head starts
            by looking at the token one, two, … places before or after, which
            shortens pretraining on little text (see layers/neighbours.py).
        use_pooler: Whether there is a `pooled_output`; a masked-LM alone has no use for it.
        seed: Integer for initial weights and dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `segment_ids` `(B, T)`, optional; all 0 if missing.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
            `position_ids` `(B, T)`, optional; 0 to T - 1 if missing.
            `pack_ids` `(B, T)`, optional; the number of the example each token
            belongs to, where several share a row: they do not see each other.
            `cls_positions` `(B, E)`, optional; where each example of a row begins.
        training: Whether dropout is on.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)` and `pooled_output`
        `(B, D)`, a dense layer with tanh on the first token (with `use_pooler`); with
        `cls_positions` `(B, E, D)`, on the first token of each example.

    Attributes:
        remat: Whether training keeps the inputs of each layer alone and computes the rest again for
            the gradient (rematerialization): less memory, more time, the same result but for
            rounding. Defaults to False; set it before the model is first trained.

    Raises:
        ValueError: If an argument is out of range, D is no multiple of H, or T
            exceeds `max_length`.

    `build()` needs no shape: everything is known at construction.

    Reference:
        Devlin et al., BERT, 2018, section 3.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BertEncoder
        >>> model = BertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 9]])})
        >>> print(found["sequence_output"].shape, found["pooled_output"].shape)
        (1, 3, 128) (1, 128)
        >>> print(np.std(found["sequence_output"], axis=-1).round(2))  # it ends in a LayerNorm
        [[1. 1. 1.]]
    """

    INPUTS = {**dict.fromkeys(("token_ids", "segment_ids", "padding_mask", "position_ids",
                               "pack_ids"), "BT"), "cls_positions": "BE"}
    remat = False

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        num_heads: int,
        intermediate_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float | None = None,
        max_length: int = 512,
        num_segments: int = 2,
        activation: Activation = "gelu_tanh",
        norm_first: bool = False,
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        initial_attention: str = "uniform",
        use_pooler: bool = True,
        seed: int | None = None,
        name: str | None = "bert_encoder",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(vocabulary_size=vocabulary_size, num_layers=num_layers,
                      hidden_dim=hidden_dim, num_heads=num_heads, max_length=max_length,
                      num_segments=num_segments)
        require_sizes(optional=True, intermediate_dim=intermediate_dim)
        if hidden_dim % num_heads:
            raise ValueError(
                "hidden_dim must be a multiple of num_heads. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        require_rates(dropout=dropout)
        require_rates(optional=True, attention_dropout=attention_dropout)
        require_not_negative(layer_norm_epsilon=layer_norm_epsilon,
                             initializer_range=initializer_range)
        if initial_attention not in ("uniform", "neighbours"):
            raise ValueError(
                "initial_attention must be 'uniform' or 'neighbours'. "
                f"Received: initial_attention={initial_attention!r}"
            )
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim or 4 * hidden_dim
        self.dropout = dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.max_length = max_length
        self.num_segments = num_segments
        self.activation = get_activation(activation)
        self.norm_first = norm_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.initial_attention = initial_attention
        self.use_pooler = use_pooler
        self.seed = seed

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Encoder of one of the sizes of google-research/bert.

        Args:
            size: `"tiny"`, `"mini"`, `"small"`, `"medium"`, `"base"` or `"large"`.
            vocabulary_size: Rows of the token table.
            **kwargs: Other arguments of the constructor.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in BERT_SIZES:
            raise ValueError(f"size must be one of {', '.join(BERT_SIZES)}. Received: size={size}")
        num_layers, hidden_dim, num_heads = BERT_SIZES[size]
        shape = {"num_layers": num_layers, "hidden_dim": hidden_dim, "num_heads": num_heads}
        return cls(vocabulary_size, **{**shape, **kwargs})

    def select_inputs(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """The entries of a batch that this model reads."""
        return {name: batch[name] for name in self.INPUTS if name in batch}

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        token_seed, position_seed, segment_seed, pooler_seed, dropout_seed, *seeds = split_seed(
            self.seed, self.num_layers + 5
        )
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        positions, shifts = initializer, None
        if self.initial_attention == "neighbours":
            positions = NeighbourPositions(self.initializer_range)
            shifts = neighbour_shifts(self.num_heads)
        # Rows are gathered before the cast to half precision: the table is large.
        self.token_embedding = self.add_weight(
            name="token_embedding",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=seeded_initializer(initializer, token_seed),
            autocast=False,
        )
        self.segment_embedding = self.add_weight(
            name="segment_embedding",
            shape=(self.num_segments, self.hidden_dim),
            initializer=seeded_initializer(initializer, segment_seed),
        )
        self.position_embedding = LearnedPositionEmbedding(
            self.max_length,
            initializer=positions,
            seed=position_seed,
            dtype=self.dtype_policy,
            name="position_embedding",
        )
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "embedding_dropout")
        self.norm = _norm(self, "norm")
        self.encoder_layers = [
            TransformerEncoderLayer(
                self.num_heads,
                self.intermediate_dim,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation=self.activation,
                norm_first=self.norm_first,
                layer_norm_epsilon=self.layer_norm_epsilon,
                initial_shifts=shifts,
                kernel_initializer=initializer,
                seed=seed,
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i, seed in enumerate(seeds)
        ]
        self.final_norm = _norm(self, "final_norm") if self.norm_first else None
        self.pooler = None
        if self.use_pooler:
            self.pooler = keras.layers.Dense(
                self.hidden_dim,
                activation="tanh",
                kernel_initializer=seeded_initializer(initializer, pooler_seed),
                dtype=self.dtype_policy,
                name="pooler",
            )
        hidden = (None, None, self.hidden_dim)
        for layer in (self.position_embedding, self.norm, *self.encoder_layers):
            layer.build(hidden)
        if self.final_norm is not None:
            self.final_norm.build(hidden)
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_dim))
        self.built = True

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from the input up: of the embeddings, of each layer, of the rest.

        Returns:
            `num_layers + 2` lists of variables.
        """
        below = [self.token_embedding, self.segment_embedding, *self.position_embedding.variables,
                 *self.norm.variables]
        layers = [layer.variables for layer in self.encoder_layers]
        known = {variable.path for part in (below, *layers) for variable in part}
        return [below, *layers, [v for v in self.variables if v.path not in known]]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        x = self._embed(inputs["token_ids"], inputs.get("segment_ids"), inputs.get("position_ids"))
        x = drop(apply_rowwise(self.norm, x), self.dropout, self.seed_generator, training)
        mask = self._attention_mask(inputs.get("padding_mask"), inputs.get("pack_ids"))
        for layer in self.encoder_layers:
            x = call_layer(self, layer, x, attention_mask=mask, training=training)
        if self.norm_first:
            x = apply_rowwise(self.final_norm, x)
        outputs = {"sequence_output": x}
        if self.pooler is not None:
            first = ops.sum(x[:, :1], axis=1)  # 0 for texts without a token
            if "cls_positions" in inputs:
                first = take_positions(x, inputs["cls_positions"])
            outputs["pooled_output"] = self.pooler(first)
        return outputs

    def _embed(self, token_ids, segment_ids, position_ids):
        x = ops.take(self.token_embedding, token_ids, axis=0)
        x = self.position_embedding(ops.cast(x, self.compute_dtype), position_ids=position_ids)
        if segment_ids is None:
            return x + self.segment_embedding[0]
        # A product with few rows is faster than a gather, whose gradient is a scatter.
        chosen = ops.one_hot(segment_ids, self.num_segments, dtype=x.dtype)
        return x + linear(chosen, self.segment_embedding)

    def _attention_mask(self, padding_mask, pack_ids):
        """One mask for all layers, `(B, 1, 1 or T, T)`, or None."""
        if padding_mask is not None:
            padding_mask = padding_mask[:, None, None, :]
        packs = None if pack_ids is None else pack_mask(pack_ids)[:, None]
        return combine_masks(padding_mask, packs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "max_length": self.max_length,
            "num_segments": self.num_segments,
            "activation": serialize_activation(self.activation),
            "norm_first": self.norm_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "initial_attention": self.initial_attention,
            "use_pooler": self.use_pooler,
            "seed": self.seed,
        }


def _norm(encoder, name):
    return LayerNorm(
        epsilon=encoder.layer_norm_epsilon, dtype=encoder.dtype_policy, name=name
    )
