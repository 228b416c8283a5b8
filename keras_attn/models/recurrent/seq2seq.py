"""Base class of recurrent encoder-decoders."""

import keras
from keras import ops

from keras_attn.layers.padded_rnn import bidirectional, recurrent
from keras_attn.layers.seeds import drop
from keras_attn.models.row_cache import RowCache
from keras_attn.models.task import label_weights
from keras_attn.models.token_loss import TokenLoss
from keras_attn.ops import sparse_cross_entropy
from keras_attn.types import Nest, Tensor


class Seq2Seq(RowCache, TokenLoss):
    """Training and decoding of a recurrent encoder and a `RecurrentDecoder`, with the API of
    `Transformer`.

    A mixin that precedes `keras.Model` in the bases. A model has `decoder`, `label_smoothing` and
    `read(inputs, training)`, which returns the encoder outputs `(B, S, D)` and the `initial_state`
    of the decoder.

    If the decoder samples keys for REINFORCE, the outputs in training also contain its `draws`, and
    the loss `reinforce` has the gradient that the token loss lacks. Its value is that of the
    entropy term; the baseline of each row is the loss of its own words with the most likely keys,
    so the errors of rows are independent.
    """

    INPUTS = {"token_ids": "BT", "padding_mask": "BT", "target_ids": "BS"}
    REQUIRED = ("token_ids", "target_ids")
    positions = None  # a `Transformer` with learned positions limits the length

    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        teacher_forcing_ratio: Tensor | float | None = None,
    ) -> dict[str, Tensor]:
        encoded, initial_state = self.read(inputs, training)
        draws = {"return_draws": True} if training and self.decoder.draws else {}
        logits, alignments, *found = self.decoder(
            inputs["target_ids"],
            encoded,
            memory_mask=inputs.get("padding_mask"),
            initial_state=initial_state,
            teacher_forcing_ratio=teacher_forcing_ratio,
            training=training,
            **draws,
        )
        outputs = {
            "encoder_output": encoded,
            "logits": ops.cast(logits, "float32"),
            "alignments": alignments,
        }
        return {**outputs, "draws": found[0]} if draws else outputs

    @property
    def metric_names(self) -> tuple[str, ...]:  # type: ignore[override]
        names = TokenLoss.metric_names
        return ("token_loss", "reinforce_loss", *names[1:]) if self.decoder.draws else names

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        weights = super().loss_weights(batch)
        return {**weights, "reinforce": weights["token"]} if self.decoder.draws else weights

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        errors = super().loss_errors(outputs, batch)
        if not self.decoder.draws:
            return errors
        if "draws" not in outputs:  # nothing is sampled at inference
            return {**errors, "reinforce": ops.zeros((), "float32")}
        costs, baselines = (
            sparse_cross_entropy(
                batch["label"], ops.stop_gradient(ops.cast(x, "float32")), self.label_smoothing
            )
            for x in (outputs["logits"], outputs["draws"]["baseline_logits"])
        )
        weights = label_weights(batch, batch["label"])
        found = self.decoder.cell.reinforce_errors(costs, baselines, outputs["draws"], weights)
        return {**errors, "reinforce": ops.sum(found)}

    def encode(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """Runs the encoder and returns its outputs `(B, S, D)`.

        Args:
            inputs: Dictionary as in a call, of which `token_ids` and `padding_mask` are used.
            training: Whether dropout is applied.
        """
        return self.read(inputs, training)[0]

    def start_decoding(
        self, inputs: dict[str, Tensor], length: int, rows: int = 1
    ) -> tuple[Nest, Nest]:
        """Prepares decoding.

        Args:
            inputs: As for `encode`.
            length: Maximum number of tokens of a target; unused, as the size of the state is fixed.
            rows: Number of targets R per source.

        Returns:
            (cache, memory): the states of each target, and what they all attend to. Both are
            arguments of `decode`, which returns the cache for its next call.
        """
        encoded, initial_state = self.read(inputs)
        return self.decoder.start_decoding(encoded, inputs.get("padding_mask"), initial_state, rows)

    def decode(
        self,
        target_ids: Tensor,
        index: Tensor | int,
        cache: Nest,
        memory: Nest,
        padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        """Returns the logits of the next tokens, given these tokens and the states in the cache.

        Args:
            target_ids: Integers `(B R, T)`, the tokens from position `index`.
            index: Integer scalar.
            cache: As returned by `start_decoding` or the previous call.
            memory: As returned by `start_decoding`.
            padding_mask: Unused, as the memory contains it.
            return_attention_scores: Whether to return the alignments `(B R, T, S)`.

        Returns:
            `(logits (B R, T, V), cache)`, then the alignments if requested.
        """
        logits, alignments, cache = self.decoder(target_ids, memory, cache=cache, cache_index=index)
        result = ops.cast(logits, "float32"), cache
        return (*result, alignments) if return_attention_scores else result

    def embed(self, inputs: dict[str, Tensor], training: bool | None) -> Tensor:
        """Returns the source embeddings `(B, S, E)`, after dropout."""
        x = ops.cast(
            ops.take(self.token_embedding, inputs["token_ids"], axis=0), self.compute_dtype
        )
        return drop(x, self.dropout, self.dropout_generator, training)


def recurrent_layer(kind, units, both_ways, seed, dtype, name):
    """Creates an encoder layer that returns its outputs and its last states.

    Args:
        kind: `"gru"` or `"lstm"`.
        units: Units per direction.
        both_ways: Whether the layer is bidirectional.
        seed: Integer seed of the initial weights; the directions differ.
        dtype: Dtype policy.
        name: Name of the layer.
    """
    kind = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}[kind]
    if both_ways:
        return bidirectional(kind, units, seed, dtype, name)
    return recurrent(kind, units, seed, dtype=dtype, name=name)
