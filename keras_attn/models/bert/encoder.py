"""The BERT encoder."""

from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers import LearnedPositionEmbedding, RotaryEmbedding, TransformerEncoderLayer
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.neighbours import NeighbourPositions, neighbour_shifts
from keras_attn.layers.rematerialization import call_layer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.ops import combine_masks, pack_mask, take_positions
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import (
    require_not_negative,
    require_positive,
    require_rates,
    require_sizes,
)
from keras_attn.ops.products import apply_rowwise, linear
from keras_attn.types import Activation, Shape, Tensor

# Number of layers, hidden size, number of heads: the sizes of google-research/bert.
BERT_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
LOCAL_EVERY, WINDOW = 3, 128  # those of ModernBERT


@keras.saving.register_keras_serializable(package="keras_attn")
class BertEncoder(DeclaredInputs, keras.Model):
    """BERT encoder without a task head: token ids to vectors.

    The sum of token, position and segment embeddings is normalized and passed through Transformer
    encoder layers.

    A subclass may have other `SIZES`, embeddings of another size (`embedding_dim`), and override
    `embed`, for example to project them; `build` creates its own layers after those of this class.
    To share the embeddings of another encoder, override `build_embeddings`.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of encoder layers.
        hidden_dim: Hidden size D.
        num_heads: Number of attention heads H per layer; divides D.
        intermediate_dim: Feed-forward size; defaults to 4 D.
        dropout: Dropout rate of the embeddings and of the output of each sublayer.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        max_length: Number of learned positions, the maximum input length.
        num_segments: Number of segment types; 0: no segment embeddings; 1: all tokens have the same
            one, as in RoBERTa, and `segment_ids` are not used.
        activation: `"gelu_tanh"` (google-research/bert), `"gelu_erf"` (Hugging Face's `"gelu"`),
            `"relu2"`, a Keras activation name, or a function.
        norm_first: Whether to use pre-norm (with a final norm) instead of post-norm.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the initial weights.
        initial_attention: `"uniform"`, as in BERT, or `"neighbours"`: each head is initialized to
            attend one, two, … positions before or after, which shortens pretraining on small
            corpora (see layers/neighbours.py).
        use_pooler: Whether to compute `pooled_output`, which masked language modeling alone does
            not need.
        seed: Integer seed of the initial weights and of dropout.
        positions: `"learned"`, or `"rotary"`: the attention rotates queries and keys
            (`RotaryEmbedding`), so that there is no maximum length.
        feed_forward: `"dense"`, or `"geglu"`: hidden units are gated (`PositionwiseFeedForward`).
        use_bias: Whether attention and feed-forward layers, and heads with the layers of these,
            have biases.
        norm_bias: Whether layer norms have biases.
        first_norm: With `norm_first`, whether the first layer normalizes the input of its
            attention, which the norm of the embeddings already does.
        local_every: Number of layers of which the first one is global and the others are local;
            defaults to 3 if `window` is given, else all layers are global.
        window: Number of positions that a local layer attends to: `window // 2` on either side, in
            `O(T window)` time and memory; defaults to 128 if `local_every` is given.
        rotary_base: Base of the wavelengths of rotary positions in global layers.
        local_rotary_base: The same in local layers.
        qk_norm: Whether queries and keys are normalized: see `MultiHeadAttention`.
        initial_outputs: `"random"`, or `"zeros"`: the kernels of layers that are added to the
            residual are initialized with 0, so that each block is at first the identity.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, T)`.
            `segment_ids` `(B, T)`, optional; defaults to 0.
            `padding_mask` `(B, T)`, optional; 1 for real tokens.
            `position_ids` `(B, T)`, optional; defaults to 0 to T - 1.
            `pack_ids` `(B, T)`, optional; the number of the example of each token, if several
                examples share a row. Examples do not attend to each other.
            `cls_positions` `(B, E)`, optional; the first position of each example of a row.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)` and, with `use_pooler`, `pooled_output`
        `(B, D)`: a dense layer with tanh on the first token; with `cls_positions` `(B, E, D)`, on
        the first token of each example.

    Attributes:
        remat: Whether training only keeps the inputs of each layer and recomputes the rest for the
            gradient (rematerialization), which trades time for memory; results are equal up to
            rounding. Defaults to False; must be set before training.

    Raises:
        ValueError: If an argument is out of range, D is not a multiple of H, arguments are
            incompatible, or T exceeds `max_length` with learned positions.

    `build()` needs no shape, as all sizes are known at construction.

    Reference:
        Devlin et al., BERT, 2018, section 3; `positions` to `local_rotary_base`: Warner et al.,
        ModernBERT, 2024, section 2.1; `initial_outputs`: Zhang et al., Fixup Initialization, 2019.

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

    INPUTS = {
        **dict.fromkeys(
            ("token_ids", "segment_ids", "padding_mask", "position_ids", "pack_ids"), "BT"
        ),
        "cls_positions": "BE",
    }
    SIZES: Mapping[str, tuple[int, ...]] = BERT_SIZES
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
        positions: str = "learned",
        feed_forward: str = "dense",
        use_bias: bool = True,
        norm_bias: bool = True,
        first_norm: bool = True,
        local_every: int | None = None,
        window: int | None = None,
        rotary_base: float = 10000.0,
        local_rotary_base: float = 10000.0,
        qk_norm: bool = False,
        initial_outputs: str = "random",
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
        require_sizes(
            optional=True, intermediate_dim=intermediate_dim, local_every=local_every, window=window
        )
        require_positive(rotary_base=rotary_base, local_rotary_base=local_rotary_base)
        if hidden_dim % num_heads:
            raise ValueError(
                "BertEncoder: hidden_dim must be a multiple of num_heads. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        require_rates(dropout=dropout)
        require_rates(optional=True, attention_dropout=attention_dropout)
        require_sizes(low=0, num_segments=num_segments)
        require_not_negative(
            layer_norm_epsilon=layer_norm_epsilon, initializer_range=initializer_range
        )
        for argument, value, choices in (
            ("initial_attention", initial_attention, ("uniform", "neighbours")),
            ("positions", positions, ("learned", "rotary")),
            ("feed_forward", feed_forward, ("dense", "geglu")),
            ("initial_outputs", initial_outputs, ("random", "zeros")),
        ):
            if value not in choices:
                raise ValueError(
                    f"BertEncoder: {argument} must be {' or '.join(map(repr, choices))}. "
                    f"Received: {argument}={value!r}"
                )
        local = local_every is not None or window is not None
        if initial_attention == "neighbours" and (positions == "rotary" or local):
            raise ValueError(
                "BertEncoder: initial_attention='neighbours' requires learned positions and global "
                f"layers. Received: positions={positions!r}, local_every={local_every}, "
                f"window={window}"
            )
        if not first_norm and not norm_first:
            raise ValueError(
                "BertEncoder: first_norm=False requires norm_first=True. "
                f"Received: norm_first={norm_first}"
            )
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.embedding_dim = hidden_dim  # a subclass may set another size
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
        self.positions = positions
        self.feed_forward = feed_forward
        self.use_bias = use_bias
        self.norm_bias = norm_bias
        self.first_norm = first_norm
        self.local_every = (local_every or LOCAL_EVERY) if local else None
        self.window = (window or WINDOW) if local else None
        self.rotary_base = rotary_base
        self.local_rotary_base = local_rotary_base
        self.qk_norm = qk_norm
        self.initial_outputs = initial_outputs
        self.output_range = initializer_range  # of layers that are added to the residual

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates an encoder of one of the `SIZES`, here those of google-research/bert.

        Args:
            size: `"tiny"`, `"mini"`, `"small"`, `"medium"`, `"base"` or `"large"`.
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in cls.SIZES:
            raise ValueError(
                f"{cls.__name__}: size must be one of {', '.join(cls.SIZES)}. Received: size={size}"
            )
        names = "num_layers", "hidden_dim", "num_heads", "intermediate_dim"
        shape = dict(zip(names, cls.SIZES[size], strict=False))
        return cls(vocabulary_size, **{**shape, **kwargs})

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        token_seed, position_seed, segment_seed, pooler_seed, dropout_seed, *seeds = split_seed(
            self.seed, self.num_layers + 5
        )
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        self.build_embeddings(token_seed, position_seed, segment_seed)
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "embedding_dropout")
        self.norm = _norm(self, "norm")
        self.encoder_layers = self._make_layers(seeds)
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
        self.norm.build((None, None, self.embedding_dim))
        for layer in self.encoder_layers:
            layer.build(hidden)
        if self.final_norm is not None:
            self.final_norm.build(hidden)
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_dim))
        self.built = True

    def _make_layers(self, seeds):
        neighbours = self.initial_attention == "neighbours"
        rotary, local_rotary = self._rotary(self.rotary_base), self._rotary(self.local_rotary_base)
        layers = []
        for i, seed in enumerate(seeds):
            local = self.local_every is not None and i % self.local_every > 0
            layers.append(
                TransformerEncoderLayer(
                    self.num_heads,
                    self.intermediate_dim,
                    dropout=self.dropout,
                    attention_dropout=self.attention_dropout,
                    activation=self.activation,
                    norm_first=self.norm_first,
                    layer_norm_epsilon=self.layer_norm_epsilon,
                    initial_shifts=neighbour_shifts(self.num_heads) if neighbours else None,
                    kernel_initializer=keras.initializers.TruncatedNormal(
                        stddev=self.initializer_range
                    ),
                    output_initializer=keras.initializers.TruncatedNormal(stddev=self.output_range)
                    if self.initial_outputs == "random"
                    else "zeros",
                    use_bias=self.use_bias,
                    norm_bias=self.norm_bias,
                    normalize_input=self.first_norm or i > 0,
                    gated=self.feed_forward == "geglu",
                    position=local_rotary if local else rotary,
                    window=self.window // 2 if local else None,
                    qk_norm=self.qk_norm,
                    seed=seed,
                    dtype=self.dtype_policy,
                    name=f"layer_{i}",
                )
            )
        return layers

    def _rotary(self, base):
        if self.positions != "rotary":
            return None
        return RotaryEmbedding("halves", base, dtype=self.dtype_policy, name="rotary")

    def build_embeddings(
        self, token_seed: int | None, position_seed: int | None, segment_seed: int | None
    ) -> None:
        """Creates `token_embedding`, `segment_embedding` and `position_embedding`.

        Args:
            token_seed: Seed of the initial token embeddings.
            position_seed: Seed of the initial position embeddings.
            segment_seed: Seed of the initial segment embeddings.
        """
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        # Without autocast, as only the gathered rows of this large matrix are cast.
        self.token_embedding = self.add_weight(
            name="token_embedding",
            shape=(self.vocabulary_size, self.embedding_dim),
            initializer=seeded_initializer(initializer, token_seed),
            autocast=False,
        )
        self.segment_embedding = None
        if self.num_segments:
            self.segment_embedding = self.add_weight(
                name="segment_embedding",
                shape=(self.num_segments, self.embedding_dim),
                initializer=seeded_initializer(initializer, segment_seed),
            )
        self.position_embedding = None
        if self.positions == "rotary":
            return
        neighbours = self.initial_attention == "neighbours"
        self.position_embedding = LearnedPositionEmbedding(
            self.max_length,
            initializer=NeighbourPositions(self.initializer_range) if neighbours else initializer,
            seed=position_seed,
            dtype=self.dtype_policy,
            name="position_embedding",
        )
        self.position_embedding.build((None, None, self.embedding_dim))

    def variables_by_depth(self) -> list[list[keras.Variable]]:
        """Lists the variables from input to output: embeddings, each layer, and the rest.

        Variables of a subclass count as embeddings.

        Returns:
            `num_layers + 2` lists of variables.
        """
        layers = [layer.variables for layer in self.encoder_layers]
        above = [v for layer in (self.final_norm, self.pooler) if layer for v in layer.variables]
        known = {variable.path for part in (*layers, above) for variable in part}
        return [[v for v in self.variables if v.path not in known], *layers, above]

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        x = self.embed(inputs, training)
        local = {name: inputs.get(name) for name in ("padding_mask", "pack_ids")}
        everywhere = {"attention_mask": self._attention_mask(**local)}
        rotated = {}
        if self.positions == "rotary":
            rotated["position_ids"] = inputs.get("position_ids")
        for layer in self.encoder_layers:
            masks = everywhere if layer.window is None else local
            x = call_layer(self, layer, x, **masks, **rotated, training=training)
        if self.norm_first:
            x = apply_rowwise(self.final_norm, x)
        outputs = {"sequence_output": x}
        if self.pooler is not None:
            first = ops.sum(x[:, :1], axis=1)  # 0 for texts without tokens
            if "cls_positions" in inputs:
                first = take_positions(x, inputs["cls_positions"])
            outputs["pooled_output"] = self.pooler(first)
        return outputs

    def embed(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Returns the input of the first layer, `(B, T, D)`.

        Args:
            inputs: See the call arguments.
            training: See the call arguments.
        """
        x = ops.take(self.token_embedding, inputs["token_ids"], axis=0)
        x = ops.cast(x, self.compute_dtype)
        if self.position_embedding is not None:
            x = self.position_embedding(x, position_ids=inputs.get("position_ids"))
        if self.segment_embedding is not None:
            x = self._add_segments(x, inputs.get("segment_ids"))
        return drop(apply_rowwise(self.norm, x), self.dropout, self.seed_generator, training)

    def _add_segments(self, x, segment_ids):
        if segment_ids is None or self.num_segments == 1:
            return x + self.segment_embedding[0]
        # For few rows, a matrix product is faster than a gather, whose gradient is a scatter.
        chosen = ops.one_hot(segment_ids, self.num_segments, dtype=x.dtype)
        return x + linear(chosen, self.segment_embedding)

    def _attention_mask(self, padding_mask, pack_ids):
        """Returns one mask for all global layers, `(B, 1, 1 or T, T)`, or None."""
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
            "positions": self.positions,
            "feed_forward": self.feed_forward,
            "use_bias": self.use_bias,
            "norm_bias": self.norm_bias,
            "first_norm": self.first_norm,
            "local_every": self.local_every,
            "window": self.window,
            "rotary_base": self.rotary_base,
            "local_rotary_base": self.local_rotary_base,
            "qk_norm": self.qk_norm,
            "initial_outputs": self.initial_outputs,
        }


def _norm(encoder, name):
    return LayerNorm(
        epsilon=encoder.layer_norm_epsilon,
        center=encoder.norm_bias,
        dtype=encoder.dtype_policy,
        name=name,
    )
