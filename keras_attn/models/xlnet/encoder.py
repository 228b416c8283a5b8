"""The XLNet encoder."""

from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers.rematerialization import call_layer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.models.padding import take_last
from keras_attn.models.xlnet.layer import XLNetLayer
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.permutations import permutation_mask, stream_masks
from keras_attn.ops.products import linear
from keras_attn.ops.relative import relative_position_vectors
from keras_attn.types import Activation, Nest, Shape, Tensor

# Number of layers, hidden size, number of heads: sizes of BERT; the paper has "base" and "large".
XLNET_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class XLNet(DeclaredInputs, keras.Model):
    """XLNet encoder without a task head, with a content stream and an optional query stream.

    Positions are relative, so the input length is not limited.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of layers.
        hidden_dim: Hidden size D.
        num_heads: Number of attention heads H per layer; divides D.
        intermediate_dim: Feed-forward size; defaults to 4 D.
        dropout: Dropout rate of the embeddings, the relative position encodings, the feed-forward
            networks, and the outputs of each sublayer and of the last layer.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        memory_length: Maximum number of tokens per row that the next call can attend to; 0: no
            memory.
        reuse_length: Number of tokens from the start of a row that are added to the memory;
            defaults to all.
        max_distance: Relative distances are clipped to this value. None: not clipped.
        activation: `"gelu_tanh"`, `"gelu_erf"`, a Keras activation name, or a function.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the initial weights.
        use_pooler: Whether to apply a dense layer with tanh to `pooled_output`.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `segment_ids` `(B, T)`, optional; by default, there is a single segment.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
            `pack_ids` `(B, T)`, optional; the number of the text of each token, if several texts
                share a row. Texts do not attend to each other.
            `permutation_ranks` `(B, T)`, optional; see `permutation_mask`.
            `permutation_mask` `(B, T, T)`, optional, instead of the ranks; 1 where a position may
                be attended to.
            `mask_positions` `(B, K)`, optional; the positions of the query stream.
            `cls_positions` `(B, E)`, optional; the tokens whose vectors represent the texts of a
                row.
            `memory`, optional; list of `(B, M, D)`, one tensor per layer, as returned by the
                previous call.
            `memory_mask` `(B, M)`, optional; 0 for padding of the memory. Padding should precede
                the text; after the text, it increases the distance to the following tokens.
            `reversed_rows` `(B,)`, optional; 1 for rows that contain a text in reverse order.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`; `pooled_output` `(B, D)`, the vector of the
        last real token, with `cls_positions` `(B, E, D)`; with `mask_positions` `query_output`
        `(B, K, D)`; with `memory_length` `memory`, and with a `padding_mask` or `memory_mask` its
        `memory_mask`.

    Attributes:
        remat: Whether training only keeps the inputs of each layer and recomputes the rest for the
            gradient (rematerialization), which trades time for memory; results are equal up to
            rounding. Defaults to False; must be set before training.

    Raises:
        ValueError: If an argument is out of range, D is not a multiple of H, or both
            `permutation_ranks` and `permutation_mask` are given.

    `build()` needs no shape, as all sizes are known at construction.

    Reference:
        Yang et al., XLNet, 2019, section 2; released code: zihangdai/xlnet.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import XLNet
        >>> model = XLNet.from_size("tiny", vocabulary_size=50, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 9]]), "mask_positions": np.array([[1]]),
        ...                "permutation_ranks": np.array([[-1, 0, -1]])})
        >>> print(found["sequence_output"].shape, found["query_output"].shape)
        (1, 3, 128) (1, 1, 128)
        >>> print(np.std(found["query_output"], axis=-1).round(2))  # it ends in a LayerNorm
        [[1.]]
    """

    INPUTS = {
        "token_ids": "BT",
        "segment_ids": "BT",
        "padding_mask": "BT",
        "pack_ids": "BT",
        "permutation_ranks": "BT",
        "permutation_mask": "BTT",
        "mask_positions": "BP",
        "cls_positions": "BE",
        "memory": "BMD",
        "memory_mask": "BM",
        "reversed_rows": "B",
    }
    SAME_BATCH = ("mask_positions",)
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
        memory_length: int = 0,
        reuse_length: int | None = None,
        max_distance: int | None = None,
        activation: Activation = "gelu_tanh",
        layer_norm_epsilon: float = 1e-12,
        initializer_range: float = 0.02,
        use_pooler: bool = False,
        seed: int | None = None,
        name: str | None = "xlnet",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(
            vocabulary_size=vocabulary_size,
            num_layers=num_layers,
            hidden_dim=hidden_dim,
            num_heads=num_heads,
        )
        require_sizes(
            optional=True,
            intermediate_dim=intermediate_dim,
            reuse_length=reuse_length,
            max_distance=max_distance,
        )
        require_sizes(low=0, memory_length=memory_length)
        if hidden_dim % num_heads:
            raise ValueError(
                "XLNet: hidden_dim must be a multiple of num_heads. "
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
        self.memory_length = memory_length
        self.reuse_length = reuse_length
        self.max_distance = max_distance
        self.activation = get_activation(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.initializer_range = initializer_range
        self.use_pooler = use_pooler
        self.seed = seed

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates a model of one of the sizes in `XLNET_SIZES`.

        Args:
            size: `"tiny"`, `"mini"`, `"small"`, `"medium"`, `"base"` or `"large"`.
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in XLNET_SIZES:
            raise ValueError(
                f"{cls.__name__}: size must be one of {', '.join(XLNET_SIZES)}. "
                f"Received: size={size}"
            )
        names = ("num_layers", "hidden_dim", "num_heads")
        return cls(
            vocabulary_size, **{**dict(zip(names, XLNET_SIZES[size], strict=True)), **kwargs}
        )

    def input_spec_of(self, name: str) -> keras.InputSpec | list[keras.InputSpec]:
        if name != "memory":
            return super().input_spec_of(name)
        return [
            keras.InputSpec(
                shape=(None, None, self.hidden_dim),
                dtype=self.compute_dtype,
                name=f"memory_{layer}",
            )
            for layer in range(self.num_layers)
        ]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        (
            token_seed,
            query_seed,
            pooler_seed,
            *dropout_seeds,
        ) = split_seed(self.seed, 6)
        seeds = split_seed(self.seed, self.num_layers, stream=1)
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        # Without autocast, as only the gathered rows of this large matrix are cast.
        self.token_embedding = self.add_weight(
            name="token_embedding",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=seeded_initializer(initializer, token_seed),
            autocast=False,
        )
        self.query_embedding = self.add_weight(
            name="query_embedding",
            shape=(self.hidden_dim,),
            initializer=seeded_initializer(initializer, query_seed),
        )
        self.seed_generators = [
            dropout_generator(self.dropout, seed, name)
            for seed, name in zip(
                dropout_seeds, ("embedding_dropout", "query_dropout", "output_dropout"), strict=True
            )
        ]
        self.xlnet_layers = [
            XLNetLayer(
                self.num_heads,
                self.intermediate_dim,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                max_distance=self.max_distance,
                activation=self.activation,
                layer_norm_epsilon=self.layer_norm_epsilon,
                kernel_initializer=initializer,
                seed=seed,
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i, seed in enumerate(seeds)
        ]
        for layer in self.xlnet_layers:
            layer.build((None, None, self.hidden_dim))
        self.pooler = None
        if self.use_pooler:
            self.pooler = keras.layers.Dense(
                self.hidden_dim,
                activation="tanh",
                kernel_initializer=seeded_initializer(initializer, pooler_seed),
                dtype=self.dtype_policy,
                name="pooler",
            )
            self.pooler.build((None, self.hidden_dim))
        self.built = True

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from input to output: embeddings, each layer, and the rest.

        Returns:
            `num_layers + 2` lists of variables.
        """
        below = [self.token_embedding, self.query_embedding]
        layers = [layer.variables for layer in self.xlnet_layers]
        known = {variable.path for part in (below, *layers) for variable in part}
        return [below, *layers, [v for v in self.variables if v.path not in known]]

    def call(self, inputs: dict[str, Nest], training: bool | None = None) -> dict[str, Nest]:
        output_generator = self.seed_generators[2]
        memory, content, query = self.run_layers(inputs, training)
        outputs = {"sequence_output": drop(content, self.dropout, output_generator, training)}
        if query is not None:
            outputs["query_output"] = drop(query, self.dropout, output_generator, training)
        outputs["pooled_output"] = self._pooled(outputs["sequence_output"], inputs)
        if self.memory_length:
            before = inputs.get("memory") or [None] * self.num_layers
            outputs["memory"] = [
                self._update_memory(ops.stop_gradient(x), seen)
                for x, seen in zip(memory, before, strict=True)
            ]
            given = [(content, inputs.get("padding_mask"))]
            if before[0] is not None:
                given.append((before[0], inputs.get("memory_mask")))
            if any(mask is not None for _, mask in given):
                outputs["memory_mask"] = self._update_memory(
                    *(
                        ops.ones(ops.shape(x)[:2], "int32") if mask is None else mask
                        for x, mask in given
                    )
                )
        return outputs

    @needs_weights
    def make_memory(self, inputs: dict[str, Nest], training: bool | None = None) -> list[Tensor]:
        """Computes a memory of all tokens of a batch, regardless of `memory_length` and
        `reuse_length`.

        Args:
            inputs: As in a call.
            training: As in a call.

        Returns:
            List of `(B, T, D)`, one tensor per layer; gradients do not flow into them.
        """
        return [ops.stop_gradient(x) for x in self.run_layers(inputs, training)[0]]

    @needs_weights
    def run_layers(
        self, inputs: dict[str, Nest], training: bool | None = None
    ) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """Runs both streams through all layers.

        Args:
            inputs: As in a call.
            training: As in a call.

        Returns:
            (content inputs of the layers, `(B, T, D)` each; content output `(B, T, D)`; query
            output `(B, K, D)`, or None), without the dropout of the last layer.
        """
        generators = self.seed_generators
        x = ops.cast(
            ops.take(self.token_embedding, inputs["token_ids"], axis=0), self.compute_dtype
        )
        content = drop(x, self.dropout, generators[0], training)
        places, query = inputs.get("mask_positions"), None
        if places is not None:
            query = ops.broadcast_to(
                ops.cast(self.query_embedding, x.dtype), (*ops.shape(places), self.hidden_dim)
            )
            query = drop(query, self.dropout, generators[1], training)
        before = inputs.get("memory") or [None] * self.num_layers
        content_mask, query_mask = self._masks(inputs, content, before[0])
        vectors = self._position_vectors(content, before[0], inputs, training)
        given = []
        for layer, seen in zip(self.xlnet_layers, before, strict=True):
            given.append(content)
            content, query = call_layer(
                self,
                layer,
                content,
                query,
                query_positions=places,
                segment_ids=inputs.get("segment_ids"),
                content_mask=content_mask,
                query_mask=query_mask,
                memory=seen,
                position_vectors=vectors,
                training=training,
            )
        return given, content, query

    def _position_vectors(self, content, memory, inputs, training):
        """Returns the relative position encodings of all layers, with dropout by row."""
        length = ops.shape(content)[1]
        if content.shape[1] == 0:  # there are no pairs of positions
            return None
        keys = length if memory is None else ops.shape(memory)[1] + length
        vectors = ops.cast(
            relative_position_vectors(
                length, keys, self.hidden_dim, self.max_distance, inputs.get("reversed_rows")
            ),
            self.compute_dtype,
        )
        if not (training and self.dropout):  # shared by all rows
            return vectors
        vectors = ops.broadcast_to(vectors, (ops.shape(content)[0], *ops.shape(vectors)[-2:]))
        # A separate generator would be an additional variable in every saved model.
        return drop(vectors, self.dropout, self.seed_generators[0], training)

    def _masks(self, inputs, content, memory):
        permutation = inputs.get("permutation_mask")
        if inputs.get("permutation_ranks") is not None:
            if permutation is not None:
                raise ValueError(
                    "XLNet: permutation_ranks and permutation_mask cannot be "
                    "combined. Received: both"
                )
            permutation = permutation_mask(inputs["permutation_ranks"])
        return stream_masks(
            ops.shape(content)[1],
            permutation,
            inputs.get("padding_mask"),
            inputs.get("pack_ids"),
            inputs.get("mask_positions"),
            0 if memory is None else ops.shape(memory)[1],
            inputs.get("memory_mask"),
        )

    def _update_memory(self, content, before=None):
        """Returns the memory of a layer's inputs, or of their mask, for the next call."""
        content = content[:, : self.reuse_length]
        if before is not None:
            content = ops.concatenate([ops.cast(before, content.dtype), content], axis=1)
        return content[:, -self.memory_length :]

    def _pooled(self, x, inputs):
        last = take_last(x, inputs)
        return last if self.pooler is None else self.pooler(last)

    @needs_weights
    def logits_kernel(self, rows: int | None = None) -> Tensor:
        """Returns the transposed embedding matrix `(D, V)`, for any number of rows."""
        return ops.transpose(ops.cast(self.token_embedding, self.compute_dtype))

    @needs_weights
    def token_products(self, hidden: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Multiplies vectors `(..., D)` with the embedding matrix: logits `(..., V)` without a
        bias.

        Args:
            hidden: The vectors.
            kernel: Result of `logits_kernel`, if available.
        """
        if kernel is None:
            kernel = ops.transpose(ops.cast(self.token_embedding, hidden.dtype))
        return linear(hidden, kernel)

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
            "memory_length": self.memory_length,
            "reuse_length": self.reuse_length,
            "max_distance": self.max_distance,
            "activation": serialize_activation(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "initializer_range": self.initializer_range,
            "use_pooler": self.use_pooler,
            "seed": self.seed,
        }
