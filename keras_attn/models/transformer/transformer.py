"""The Transformer encoder-decoder."""

from typing import Any, Self

import keras
from keras import ops

from keras_attn.layers import (
    LearnedPositionEmbedding,
    SinusoidalPositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.rematerialization import call_layer
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.shared_cache import make_writers, take_writers, write_step
from keras_attn.models.token_loss import TokenLoss
from keras_attn.ops.activations import get_activation, serialize_activation
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.cross_entropy import vocabulary_losses
from keras_attn.ops.products import apply_rowwise, linear
from keras_attn.types import Activation, Nest, Shape, Tensor

# Number of encoder (and decoder) layers, hidden size, number of heads, feed-forward size. base and
# big: Vaswani et al., table 3; tiny: Wu et al., Good for Misconceived Reasons, 2021.
TRANSFORMER_SIZES = {
    "tiny": (4, 128, 4, 256),
    "base": (6, 512, 8, 2048),
    "big": (6, 1024, 16, 4096),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class Transformer(TokenLoss, keras.Model):
    """Transformer encoder-decoder that predicts the next target token.

    Args:
        vocabulary_size: Vocabulary size V, shared by source and target by default.
        num_layers: Number of encoder layers, and of decoder layers.
        hidden_dim: Hidden size D; even.
        num_heads: Number of attention heads per layer; divides D.
        intermediate_dim: Feed-forward size; defaults to 4 D.
        target_vocabulary_size: Size of a separate target vocabulary with its own embeddings; None:
            source and target share one.
        dropout: Dropout rate of the embeddings and of the output of each sublayer.
        attention_dropout: Dropout rate of the attention weights; 0, as in the paper.
        positions: `"sinusoidal"`, or `"learned"`: embeddings of `max_length` positions.
        max_length: Maximum length of source and target; no limit for sinusoidal positions.
        tie_embeddings: Whether the output layer rates the target embeddings.
        activation: Activation of the feed-forward networks.
        norm_first: Whether to use pre-norm (with final norms) instead of post-norm.
        layer_norm_epsilon: Added to the variance in layer normalization.
        label_smoothing: See `sparse_cross_entropy`.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, S)`, the source.
            `padding_mask` `(B, S)`, optional; 1 for real tokens.
            `target_ids` `(B, T)`, the target, starting with the begin token.
            For losses and metrics also `label` `(B, T)`, the target up to the end-of-sequence
                token;
            `sample_weight` `(B, T)`, optional: 0 for padding.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `encoder_output` `(B, S, D)` and `logits` `(B, T, V)` of the next token; with
        `label` also `errors`, `hits` and `log_losses` `(B, T)`: the cross-entropy, 1 where no logit
        exceeds the label's, and the cross-entropy without smoothing.

    Embeddings are multiplied by sqrt(D). Padding of the target must be on the right, where causal
    attention does not reach it. `fit` requires a dataset of such dictionaries. Loss `token`: the
    cross-entropy with label smoothing; metrics `token_accuracy` and `log_perplexity`, the
    cross-entropy without smoothing.

    Attributes:
        remat: Whether training only keeps the inputs of each layer and recomputes the rest for the
            gradient (rematerialization), which trades time for memory; results are equal up to
            rounding. Defaults to False; must be set before training.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import Transformer
        >>> model = Transformer.from_size("tiny", vocabulary_size=50, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 0]]),
        ...                "padding_mask": np.array([[1, 1, 0]]),
        ...                "target_ids": np.array([[2, 9]])})
        >>> print(found["logits"].shape, model.count_params())
        (1, 2, 50) 1331456
    """

    INPUTS = {"token_ids": "BT", "padding_mask": "BT", "target_ids": "BS"}
    REQUIRED = ("token_ids", "target_ids")
    remat = False

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        num_heads: int,
        intermediate_dim: int | None = None,
        target_vocabulary_size: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        positions: str = "sinusoidal",
        max_length: int = 512,
        tie_embeddings: bool = True,
        activation: Activation = "relu",
        norm_first: bool = False,
        layer_norm_epsilon: float = 1e-5,
        label_smoothing: float = 0.1,
        seed: int | None = None,
        name: str | None = "transformer",
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
            optional=True,
            intermediate_dim=intermediate_dim,
            target_vocabulary_size=target_vocabulary_size,
        )
        if hidden_dim % num_heads:
            raise ValueError(
                "Transformer: hidden_dim must be a multiple of num_heads. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        rates = {
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "label_smoothing": label_smoothing,
        }
        require_rates(**rates)
        require_not_negative(layer_norm_epsilon=layer_norm_epsilon)
        if positions not in ("sinusoidal", "learned"):
            raise ValueError(
                "Transformer: positions must be 'sinusoidal' or 'learned'. "
                f"Received: positions={positions!r}"
            )
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim or 4 * hidden_dim
        self.target_vocabulary_size = target_vocabulary_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.positions = positions
        self.max_length = max_length
        self.tie_embeddings = tie_embeddings
        self.activation = get_activation(activation)
        self.norm_first = norm_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.label_smoothing = label_smoothing
        self.seed = seed

    @classmethod
    def from_size(cls, size: str, vocabulary_size: int, **kwargs: Any) -> Self:
        """Creates a Transformer of one of the sizes in `TRANSFORMER_SIZES`.

        Args:
            size: "tiny", "base" or "big".
            vocabulary_size: Vocabulary size.
            **kwargs: Other arguments of the constructor, which override those of the size.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in TRANSFORMER_SIZES:
            raise ValueError(
                f"{cls.__name__}: size must be one of {', '.join(TRANSFORMER_SIZES)}. "
                f"Received: size={size}"
            )
        names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        return cls(
            vocabulary_size, **{**dict(zip(names, TRANSFORMER_SIZES[size], strict=True)), **kwargs}
        )

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        source_seed, target_seed, output_seed, *seeds = split_seed(
            self.seed, 7 + 2 * self.num_layers
        )
        target_size = self.target_vocabulary_size or self.vocabulary_size
        self.token_embedding = self._embedding("token_embedding", self.vocabulary_size, source_seed)
        self.target_embedding = self.token_embedding
        if self.target_vocabulary_size:
            self.target_embedding = self._embedding("target_embedding", target_size, target_seed)
        self.output_kernel = None
        if not self.tie_embeddings:
            self.output_kernel = self._embedding("output_kernel", target_size, output_seed)
        hidden = (None, None, self.hidden_dim)
        self.position_layers = [
            self._positions(f"{side}_positions", seeds.pop()) for side in ("source", "target")
        ]
        self.seed_generators = [
            dropout_generator(self.dropout, seeds.pop(), f"{side}_dropout")
            for side in ("source", "target")
        ]
        self.encoder_layers, self.decoder_layers = (
            [
                layer(
                    self.num_heads,
                    self.intermediate_dim,
                    dropout=self.dropout,
                    attention_dropout=self.attention_dropout,
                    activation=self.activation,
                    norm_first=self.norm_first,
                    layer_norm_epsilon=self.layer_norm_epsilon,
                    seed=seeds.pop(),
                    dtype=self.dtype_policy,
                    name=f"{side}_layer_{i}",
                )
                for i in range(self.num_layers)
            ]
            for layer, side in (
                (TransformerEncoderLayer, "encoder"),
                (TransformerDecoderLayer, "decoder"),
            )
        )
        self.final_norms = [
            LayerNorm(epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=f"{side}_norm")
            for side in ("encoder", "decoder")
            if self.norm_first
        ]
        for layer in (*self.position_layers, *self.encoder_layers, *self.final_norms):
            layer.build(hidden)
        for layer in self.decoder_layers:
            layer.build(hidden, hidden)  # type: ignore[call-arg]  # decoder layers
        self.built = True

    def _embedding(self, name, rows, seed):
        # With variance 1 / D, embeddings times sqrt(D) have unit variance.
        initializer = keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)
        return self.add_weight(
            name=name,
            shape=(rows, self.hidden_dim),
            autocast=False,
            initializer=seeded_initializer(initializer, seed),
        )

    def _positions(self, name, seed):
        if self.positions == "sinusoidal":
            return SinusoidalPositionEncoding(dtype=self.dtype_policy, name=name)
        return LearnedPositionEmbedding(
            self.max_length,
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            seed=seed,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        encoded = self.encode(inputs, training)
        x = self._embed(1, inputs["target_ids"], training)
        for layer in self.decoder_layers:
            x = call_layer(
                self, layer, x, encoded, encoded_mask=inputs.get("padding_mask"), training=training
            )
        x = self._decoder_output(x)
        logits = self._logits(x)
        outputs = {"encoder_output": encoded, "logits": logits}
        if "label" in inputs:
            outputs |= self._token_losses(inputs["label"], x, logits)
        return outputs

    def _token_losses(self, labels, x, logits):
        shape, rows = ops.shape(labels), ops.reshape(x, (-1, self.hidden_dim))
        found = vocabulary_losses(
            ops.reshape(labels, (-1,)),
            rows,
            ops.cast(self._output_embedding(), x.dtype),
            None,
            ops.reshape(logits, (-1, logits.shape[-1])),
            self.label_smoothing,
        )
        return {
            name: ops.reshape(values, shape)
            for name, values in zip(("errors", "hits", "log_losses"), found, strict=True)
        }

    @needs_weights
    def encode(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Runs the encoder.

        Args:
            inputs: Dictionary as in a call, of which `token_ids` and `padding_mask` are used.
            training: Whether dropout is applied.

        Returns:
            `(B, S, D)`.
        """
        x, mask = self._embed(0, inputs["token_ids"], training), inputs.get("padding_mask")
        for layer in self.encoder_layers:
            x = call_layer(self, layer, x, padding_mask=mask, training=training)
        return apply_rowwise(self.final_norms[0], x) if self.norm_first else x

    def start_decoding(
        self, inputs: dict[str, Tensor], length: int, rows: int = 1
    ) -> tuple[Nest, Nest]:
        """Prepares decoding.

        Args:
            inputs: As for `encode`.
            length: Maximum number of tokens of a target.
            rows: Number of targets R per source.

        Returns:
            (cache, memory): the state of the targets, and what they all attend to. Both are
            arguments of `decode`, which returns the cache for its next call.
        """
        encoded = self.encode(inputs)
        batch = ops.shape(encoded)[0]
        cache = {
            "layers": [layer.make_cache(batch, length * rows) for layer in self.decoder_layers],
            "writers": make_writers(batch, rows, length),
        }
        memory = {
            "layers": [layer.project_memory(encoded) for layer in self.decoder_layers],
            "logits_kernel": self._logits_kernel(),
        }
        return cache, memory

    def reorder_cache(self, cache: Nest, targets: Tensor) -> Nest:
        """Selects the cache of the parent of each target, for `beam_search`.

        Args:
            cache: As returned by `start_decoding` or `decode`.
            targets: Integers `(B R,)`, the index of the parent of each target.
        """
        return {**cache, "writers": take_writers(cache["writers"], targets)}

    def decode(
        self,
        target_ids: Tensor,
        index: Tensor | int,
        cache: Nest,
        memory: Nest,
        padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        """Returns the logits of the next tokens, given these tokens and the cache.

        Args:
            target_ids: Integers `(B R, T)`, the tokens from position `index`; R or T is 1.
            index: Integer scalar.
            cache: As returned by `start_decoding` or the previous call.
            memory: As returned by `start_decoding`.
            padding_mask: Padding mask of the source, `(B, S)`, or None.
            return_attention_scores: Whether to return the attention to the source, averaged over
                heads and layers: `(B R, T, S)`.

        Returns:
            `(logits (B R, T, V), cache)`, then the attention if requested.
        """
        shape, rows = ops.shape(target_ids), cache["writers"].shape[1]
        if rows > 1 and target_ids.shape[1] != 1:
            raise ValueError(
                "Transformer: several targets per source must be decoded one token at "
                f"a time. Received: target_ids.shape={target_ids.shape}"
            )
        x = self._embed(1, target_ids, False, index + ops.arange(shape[1], dtype="int32"))
        # Targets of a source share one row, as positions that do not attend to each other.
        x = ops.reshape(x, (-1, rows * shape[1], self.hidden_dim))
        writers, visible = write_step(cache["writers"], index)
        new, scores = [], []
        for layer, own, source in zip(
            self.decoder_layers, cache["layers"], memory["layers"], strict=True
        ):
            x, *found = layer(
                x,
                attention_mask=visible,
                encoded_mask=padding_mask,
                cache=own,
                cache_index=index * rows,
                memory=source,
                return_attention_scores=return_attention_scores,
            )
            new.append(found.pop())
            scores += [ops.mean(ops.cast(one, "float32"), axis=1) for one in found]
        logits = self._logits(self._decoder_output(x), memory["logits_kernel"])
        logits = ops.reshape(logits, (*shape, logits.shape[-1]))
        result = logits, {"layers": new, "writers": writers}
        if not return_attention_scores:
            return result
        return *result, ops.reshape(sum(scores) / len(scores), (*shape, -1))

    def _embed(self, side, token_ids, training, position_ids=None):
        table = (self.token_embedding, self.target_embedding)[side]
        x = ops.cast(ops.take(table, token_ids, axis=0), self.compute_dtype)
        x = self.position_layers[side](x * self.hidden_dim**0.5, position_ids=position_ids)
        return drop(x, self.dropout, self.seed_generators[side], training)

    def _output_embedding(self):
        """Returns the output embeddings `(V, D)`."""
        return self.target_embedding if self.output_kernel is None else self.output_kernel

    def _logits_kernel(self):
        """Returns the transposed output embeddings `(D, V)`."""
        return ops.transpose(ops.cast(self._output_embedding(), self.compute_dtype))

    def _decoder_output(self, x):
        return apply_rowwise(self.final_norms[1], x) if self.norm_first else x

    def _logits(self, x, kernel=None):
        kernel = self._logits_kernel() if kernel is None else kernel
        return ops.cast(linear(x, kernel), "float32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "num_layers": self.num_layers,
            "hidden_dim": self.hidden_dim,
            "num_heads": self.num_heads,
            "intermediate_dim": self.intermediate_dim,
            "target_vocabulary_size": self.target_vocabulary_size,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "positions": self.positions,
            "max_length": self.max_length,
            "tie_embeddings": self.tie_embeddings,
            "activation": serialize_activation(self.activation),
            "norm_first": self.norm_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "label_smoothing": self.label_smoothing,
            "seed": self.seed,
        }
