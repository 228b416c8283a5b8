"""The Transformer encoder–decoder."""

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

# Layers of encoder and of decoder, width, heads, width of the feed-forward networks. base and big:
# Vaswani et al., table 3; tiny: Wu et al., Good for Misconceived Reasons, 2021.
TRANSFORMER_SIZES = {
    "tiny": (4, 128, 4, 256),
    "base": (6, 512, 8, 2048),
    "big": (6, 1024, 16, 4096),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class Transformer(TokenLoss, keras.Model):
    """The Transformer: an encoder of source tokens, a decoder that predicts the target's next one.

    Args:
        vocabulary_size: Rows V of the token table, of source and target alike.
        num_layers: Layers of the encoder, and of the decoder.
        hidden_dim: Width D; even.
        num_heads: Heads of each layer; divides D.
        intermediate_dim: Width inside the feed-forward networks; 4 D if None.
        target_vocabulary_size: Rows of a token table of the target's own; None: one table.
        dropout: Share dropped from the embeddings and each sublayer's output.
        attention_dropout: Share of attention weights dropped; 0 as in the paper.
        positions: `"sinusoidal"`, or `"learned"`: tables of `max_length` rows.
        max_length: The longest source and target; of sinusoidal positions no limit.
        tie_embeddings: Whether the output's kernel is the token table of the target.
        activation: Of the feed-forward networks.
        norm_first: Norm before each sublayer and after the last layers, not after each sublayer.
        layer_norm_epsilon: Added to the variance.
        label_smoothing: See `sparse_cross_entropy`.
        seed: Integer for initial weights and dropout.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, S)`, the source.
            `padding_mask` `(B, S)`, optional; 1 for real tokens.
            `target_ids` `(B, T)`, the target after the mark of its beginning.
            For losses and metrics also `label` `(B, T)`, the target up to the mark of its end;
            `sample_weight` `(B, T)`, optional: 0 for padding.
        training: Whether dropout is on.

    Returns:
        Dictionary of `encoder_output` `(B, S, D)` and `logits` `(B, T, V)` of the next token; with
        `label` also `errors`, `hits` and `log_losses` `(B, T)`: the cross-entropy, 1 where no logit
        exceeds the label's, and the cross-entropy without smoothing.

    Embeddings are multiplied by sqrt(D). Padding of the target is on the right, where nothing sees
    it. `fit` takes a dataset of such dictionaries. Loss `token`: the cross-entropy of the labels,
    smoothed; metrics `token_accuracy` and `log_perplexity`, the cross-entropy without smoothing.

    Attributes:
        remat: Whether training keeps the inputs of each layer alone and computes the rest again for
            the gradient (rematerialization): less memory, more time, the same result but for
            rounding. Defaults to False; set it before the model is first trained.

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
        require_sizes(vocabulary_size=vocabulary_size, num_layers=num_layers,
                      hidden_dim=hidden_dim, num_heads=num_heads, max_length=max_length)
        require_sizes(optional=True, intermediate_dim=intermediate_dim,
                      target_vocabulary_size=target_vocabulary_size)
        if hidden_dim % num_heads:
            raise ValueError("hidden_dim must be a multiple of num_heads. "
                             f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}")
        shares = {"dropout": dropout, "attention_dropout": attention_dropout,
                  "label_smoothing": label_smoothing}
        require_rates(**shares)
        require_not_negative(layer_norm_epsilon=layer_norm_epsilon)
        if positions not in ("sinusoidal", "learned"):
            raise ValueError(
                f"positions must be 'sinusoidal' or 'learned'. Received: positions={positions!r}")
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
        """Transformer of a size of `TRANSFORMER_SIZES`: "tiny", "base" or "big".

        Args:
            size: Name of the size.
            vocabulary_size: Rows of the token table.
            **kwargs: Other arguments of the constructor.

        Raises:
            ValueError: If the size is unknown.
        """
        if size not in TRANSFORMER_SIZES:
            raise ValueError(
                f"size must be one of {', '.join(TRANSFORMER_SIZES)}. Received: size={size}")
        names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        return cls(vocabulary_size,
                   **{**dict(zip(names, TRANSFORMER_SIZES[size], strict=True)), **kwargs})

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        source_seed, target_seed, output_seed, *seeds = split_seed(
            self.seed, 7 + 2 * self.num_layers)
        target_size = self.target_vocabulary_size or self.vocabulary_size
        self.token_embedding = self._table("token_embedding", self.vocabulary_size, source_seed)
        self.target_embedding = self.token_embedding
        if self.target_vocabulary_size:
            self.target_embedding = self._table("target_embedding", target_size, target_seed)
        self.output_kernel = None
        if not self.tie_embeddings:
            self.output_kernel = self._table("output_kernel", target_size, output_seed)
        hidden = (None, None, self.hidden_dim)
        self.position_layers = [self._positions(f"{side}_positions", seeds.pop())
                                for side in ("source", "target")]
        self.seed_generators = [
            dropout_generator(self.dropout, seeds.pop(), f"{side}_dropout")
            for side in ("source", "target")]
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
            for layer, side in ((TransformerEncoderLayer, "encoder"),
                                (TransformerDecoderLayer, "decoder"))
        )
        self.final_norms = [
            LayerNorm(
                epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=f"{side}_norm")
            for side in ("encoder", "decoder") if self.norm_first
        ]
        for layer in (*self.position_layers, *self.encoder_layers, *self.final_norms):
            layer.build(hidden)
        for layer in self.decoder_layers:
            layer.build(hidden, hidden)  # type: ignore[call-arg]  # those of the decoder
        self.built = True

    def _table(self, name, rows, seed):
        # Of variance 1 / D: times sqrt(D) an embedding has entries of about 1.
        initializer = keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5)
        return self.add_weight(name=name, shape=(rows, self.hidden_dim), autocast=False,
                               initializer=seeded_initializer(initializer, seed))

    def _positions(self, name, seed):
        if self.positions == "sinusoidal":
            return SinusoidalPositionEncoding(dtype=self.dtype_policy, name=name)
        return LearnedPositionEmbedding(
            self.max_length, initializer=keras.initializers.RandomNormal(stddev=0.02), seed=seed,
            dtype=self.dtype_policy, name=name)

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        encoded = self.encode(inputs, training)
        x = self._embed(1, inputs["target_ids"], training)
        for layer in self.decoder_layers:
            x = call_layer(self, layer, x, encoded, encoded_mask=inputs.get("padding_mask"),
                           training=training)
        x = self._decoder_output(x)
        logits = self._logits(x)
        outputs = {"encoder_output": encoded, "logits": logits}
        if "label" in inputs:
            outputs |= self._token_losses(inputs["label"], x, logits)
        return outputs

    def _token_losses(self, labels, x, logits):
        shape, rows = ops.shape(labels), ops.reshape(x, (-1, self.hidden_dim))
        found = vocabulary_losses(
            ops.reshape(labels, (-1,)), rows, ops.cast(self._output_table(), x.dtype), None,
            ops.reshape(logits, (-1, logits.shape[-1])), self.label_smoothing)
        return {name: ops.reshape(values, shape)
                for name, values in zip(("errors", "hits", "log_losses"), found, strict=True)}

    @needs_weights
    def encode(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """What the encoder finds in the source.

        Args:
            inputs: Dictionary as in a call, of which `token_ids` and `padding_mask` are read.
            training: Whether dropout is on.

        Returns:
            `(B, S, D)`.
        """
        x, mask = self._embed(0, inputs["token_ids"], training), inputs.get("padding_mask")
        for layer in self.encoder_layers:
            x = call_layer(self, layer, x, padding_mask=mask, training=training)
        return apply_rowwise(self.final_norms[0], x) if self.norm_first else x

    def start_decoding(self, inputs: dict[str, Tensor], length: int, rows: int = 1
                       ) -> tuple[Nest, Nest]:
        """What decoding begins with.

        Args:
            inputs: As for `encode`.
            length: Tokens of a target at most.
            rows: Targets R of each source.

        Returns:
            (cache, memory): what the targets leave for their next tokens, and what they all read.
            Both go to `decode`, and the cache that it returns to its next call.
        """
        encoded = self.encode(inputs)
        batch = ops.shape(encoded)[0]
        cache = {"layers": [layer.make_cache(batch, length * rows)
                            for layer in self.decoder_layers],
                 "writers": make_writers(batch, rows, length)}
        memory = {"layers": [layer.project_memory(encoded) for layer in self.decoder_layers],
                  "logits_kernel": self._logits_kernel()}
        return cache, memory

    def reorder_cache(self, cache: Nest, targets: Tensor) -> Nest:
        """Cache of targets that go on from others of the same source; for `beam_search`.

        Args:
            cache: Of `start_decoding` or `decode`.
            targets: Integers `(B R,)`, the one that each goes on from.
        """
        return {**cache, "writers": take_writers(cache["writers"], targets)}

    def decode(self, target_ids: Tensor, index: Tensor | int, cache: Nest, memory: Nest,
               padding_mask: Tensor | None = None, return_attention_scores: bool = False
               ) -> tuple[Tensor, ...]:
        """Logits of the next tokens, from those given and the ones in the cache.

        Args:
            target_ids: Integers `(B R, T)`, the tokens from position `index` on; R or T is 1.
            index: Integer scalar.
            cache, memory: Of `start_decoding`.
            padding_mask: Of the source, `(B, S)`, or None.
            return_attention_scores: Also return the attention to the source: the mean of heads and
                layers, `(B R, T, S)`.

        Returns:
            `(logits (B R, T, V), cache)`, then the attention if asked for.
        """
        shape, rows = ops.shape(target_ids), cache["writers"].shape[1]
        if rows > 1 and target_ids.shape[1] != 1:
            raise ValueError("Several targets of a source are decoded token by token. "
                             f"Received: target_ids.shape={target_ids.shape}")
        x = self._embed(1, target_ids, False, index + ops.arange(shape[1], dtype="int32"))
        # Targets of a source are one row: positions that do not see each other.
        x = ops.reshape(x, (-1, rows * shape[1], self.hidden_dim))
        writers, visible = write_step(cache["writers"], index)
        new, scores = [], []
        for layer, own, source in zip(
                self.decoder_layers, cache["layers"], memory["layers"], strict=True):
            x, *found = layer(
                x, attention_mask=visible, encoded_mask=padding_mask, cache=own,
                cache_index=index * rows, memory=source,
                return_attention_scores=return_attention_scores)
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

    def _output_table(self):
        """`(V, D)`."""
        return self.target_embedding if self.output_kernel is None else self.output_kernel

    def _logits_kernel(self):
        """`(D, V)`."""
        return ops.transpose(ops.cast(self._output_table(), self.compute_dtype))

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
