"""The GPT-2 decoder."""

from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers import LearnedPositionEmbedding, TransformerEncoderLayer
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.rematerialization import call_layer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.models.padding import take_last
from keras_attn.ops import pack_mask
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.products import MAX_ROWS, apply_rowwise, linear, linear_transposed
from keras_attn.types import Activation, Shape, Tensor

# Number of layers, hidden size, number of heads: "tiny" and "mini" of BERT, others of the paper.
GPT2_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
    "large": (36, 1280, 20),
    "xl": (48, 1600, 25),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class GPT2(DeclaredInputs, keras.Model):
    """GPT-2 decoder without a task head: token ids to vectors, with causal attention.

    The sum of token and position embeddings is passed through pre-norm Transformer layers and a
    final norm.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of layers.
        hidden_dim: Hidden size D.
        num_heads: Number of attention heads H per layer; divides D.
        intermediate_dim: Feed-forward size; defaults to 4 D.
        dropout: Dropout rate of the embeddings and of the output of each sublayer.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        max_length: Number of learned positions, the maximum input length.
        activation: `"gelu_tanh"` (GPT-2), a Keras activation name, or a function.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the initial weights. It is halved for positions,
            and multiplied by `1 / sqrt(2 num_layers)` for the output kernels of sublayers.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
            `position_ids` `(B, T)`, optional; defaults to 0 to T - 1.
            `pack_ids` `(B, T)`, optional; the number of the document of each token, if several
                documents share a row. Documents do not attend to each other.
            `cls_positions` `(B, E)`, optional; the tokens whose vectors represent the texts of a
                row.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)` and `pooled_output` `(B, D)`, the vector of the
        last real token; with `cls_positions` `(B, E, D)`, the vectors of these tokens.

    Attributes:
        remat: Whether training only keeps the inputs of each layer and recomputes the rest for the
            gradient (rematerialization), which trades time for memory; results are equal up to
            rounding. Defaults to False; must be set before training.

    Raises:
        ValueError: If an argument is out of range, D is not a multiple of H, or T exceeds
            `max_length`.

    `build()` needs no shape, as all sizes are known at construction.

    Reference:
        Radford et al., Language Models are Unsupervised Multitask Learners, 2019, section 2.3.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import GPT2
        >>> model = GPT2.from_size("tiny", vocabulary_size=50, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 9]])})
        >>> print(found["sequence_output"].shape, found["pooled_output"].shape)
        (1, 3, 128) (1, 128)
        >>> print(np.std(found["sequence_output"], axis=-1).round(2))  # it ends in a LayerNorm
        [[1. 1. 1.]]
    """

    INPUTS = {
        **dict.fromkeys(("token_ids", "padding_mask", "position_ids", "pack_ids"), "BT"),
        "cls_positions": "BE",
    }
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
        max_length: int = 1024,
        activation: Activation = "gelu_tanh",
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        seed: int | None = None,
        name: str | None = "gpt2",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            num_heads=num_heads,
            max_length=max_length,
        )
        require_sizes(optional=True, intermediate_dim=intermediate_dim)
        if hidden_dim % num_heads:
            raise ValueError(
                "GPT2: hidden_dim must be a multiple of num_heads. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        require_rates(dropout=dropout)
        require_rates(optional=True, attention_dropout=attention_dropout)
        require_not_negative(
            layer_norm_epsilon=layer_norm_epsilon, initializer_range=initializer_range
        )
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim or 4 * hidden_dim
        self.dropout = dropout
        self.attention_dropout = dropout if attention_dropout is None else attention_dropout
        self.max_length = max_length
        self.activation = get_activation(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.seed = seed

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates a model of one of the sizes in `GPT2_SIZES`.

        Args:
            size: `"tiny"`, `"mini"`, `"small"` (117M in the paper), `"medium"`, `"large"` or
                `"xl"`.
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in GPT2_SIZES:
            raise ValueError(
                f"{cls.__name__}: size must be one of {', '.join(GPT2_SIZES)}. "
                f"Received: size={size}"
            )
        names = ("num_layers", "hidden_dim", "num_heads")
        return cls(vocabulary_size, **{**dict(zip(names, GPT2_SIZES[size], strict=True)), **kwargs})

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        token_seed, position_seed, dropout_seed, *seeds = split_seed(self.seed, self.num_layers + 3)
        stddev = self.initializer_range
        # Without autocast, as only the gathered rows of this large matrix are cast.
        self.token_embedding = self.add_weight(
            name="token_embedding",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=seeded_initializer(_normal(stddev), token_seed),
            autocast=False,
        )
        self.position_embedding = LearnedPositionEmbedding(
            self.max_length,
            initializer=_normal(stddev / 2),
            seed=position_seed,
            dtype=self.dtype_policy,
            name="position_embedding",
        )
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "embedding_dropout")
        self.decoder_layers = [
            TransformerEncoderLayer(
                self.num_heads,
                self.intermediate_dim,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation=self.activation,
                norm_first=True,
                layer_norm_epsilon=self.layer_norm_epsilon,
                kernel_initializer=_normal(stddev),
                output_initializer=_normal(stddev / (2 * self.num_layers) ** 0.5),
                seed=seed,
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i, seed in enumerate(seeds)
        ]
        self.norm = LayerNorm(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name="norm")
        parts: list[keras.Layer] = [self.position_embedding, *self.decoder_layers, self.norm]
        for part in parts:
            part.build((None, None, self.hidden_dim))
        self.built = True

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from input to output: embeddings, each layer, and the rest.

        Returns:
            `num_layers + 2` lists of variables.
        """
        below = [self.token_embedding, *self.position_embedding.variables]
        layers = [layer.variables for layer in self.decoder_layers]
        known = {variable.path for part in (below, *layers) for variable in part}
        return [below, *layers, [v for v in self.variables if v.path not in known]]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        token_ids, mask = inputs["token_ids"], inputs.get("padding_mask")
        x = drop(
            self._embed(token_ids, inputs.get("position_ids")),
            self.dropout,
            self.seed_generator,
            training,
        )
        packs = inputs.get("pack_ids")
        packs = None if packs is None else pack_mask(packs)
        for layer in self.decoder_layers:
            x = call_layer(
                self,
                layer,
                x,
                padding_mask=mask,
                attention_mask=packs,
                use_causal_mask=True,
                training=training,
            )
        x = apply_rowwise(self.norm, x)
        return {"sequence_output": x, "pooled_output": take_last(x, inputs)}

    @needs_weights
    def make_cache(self, batch_size: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """Creates an empty cache for decoding rows of up to `length` tokens; see `decode`."""
        return [layer.attention.make_cache(batch_size, length) for layer in self.decoder_layers]

    @needs_weights
    def decode(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: list[tuple[Tensor, Tensor]],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Returns the vectors of tokens, which also attend to the tokens in the cache.

        Args:
            token_ids: Integers `(B, T)`, the tokens from index `index` of their rows.
            index: Integer scalar.
            cache: As returned by `make_cache` or the previous call.
            padding_mask: Integers `(B, length)`, 0 for padding in the cache and 1 otherwise, also
                for future tokens. None: no padding.
            position_ids: Integers `(B, T)`; by default, the indices of the tokens in their rows.
            attention_mask: Boolean `(B, T, length)`, True where a token may attend to an entry of
                the cache; later entries are always masked. None: all entries.

        Returns:
            `(vectors (B, T, D), cache)`.
        """
        if position_ids is None:
            position_ids = index + ops.arange(ops.shape(token_ids)[1], dtype="int32")
        x, new = self._embed(token_ids, position_ids), []
        for layer, own in zip(self.decoder_layers, cache, strict=True):
            x, own = layer(
                x,
                padding_mask=padding_mask,
                attention_mask=attention_mask,
                cache=own,
                cache_index=index,
            )
            new.append(own)
        return apply_rowwise(self.norm, x), new

    @needs_weights
    def logits_kernel(self, rows: int | None = None) -> Tensor | None:
        """Returns the transposed embedding matrix `(D, V)`, or None if it does not pay off for
        `rows` rows.
        """
        if isinstance(rows, int) and rows <= MAX_ROWS and self.compute_dtype == "float32":
            return None
        return ops.transpose(ops.cast(self.token_embedding, self.compute_dtype))

    @needs_weights
    def token_products(self, hidden: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Multiplies vectors `(..., D)` with the embedding matrix, which gives logits `(..., V)`.

        Args:
            hidden: The vectors.
            kernel: Result of `logits_kernel`, if available.
        """
        if kernel is None:
            kernel = self.logits_kernel(hidden.shape[0] if len(hidden.shape) == 2 else None)
        if kernel is None:
            return linear_transposed(hidden, self.token_embedding)
        return linear(hidden, kernel)

    def _embed(self, token_ids, position_ids):
        x = ops.cast(ops.take(self.token_embedding, token_ids, axis=0), self.compute_dtype)
        return self.position_embedding(x, position_ids=position_ids)

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
            "activation": serialize_activation(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "seed": self.seed,
        }


def _normal(stddev):
    return keras.initializers.RandomNormal(stddev=stddev)
