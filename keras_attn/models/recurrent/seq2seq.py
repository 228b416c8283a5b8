"""What recurrent encoder–decoders share."""

import keras
from keras import ops

from keras_attn.layers.padded_rnn import bidirectional, recurrent
from keras_attn.layers.seeds import drop
from keras_attn.models.row_cache import RowCache
from keras_attn.models.token_loss import TokenLoss
from keras_attn.types import Nest, Tensor


class Seq2Seq(RowCache, TokenLoss):
    """Training and decoding of a recurrent encoder and a `RecurrentDecoder`, as of `Transformer`.

    A mixin before `keras.Model`. A model has `decoder`, `label_smoothing` and
    `read(inputs, training)`, which returns the encoder's outputs `(B, S, D)` and the
    `initial_state` of the decoder.
    """

    INPUTS = {"token_ids": "BT", "padding_mask": "BT", "target_ids": "BS"}
    REQUIRED = ("token_ids", "target_ids")

    def call(self, inputs: dict[str, Tensor], training: bool | None = None,
             teacher_forcing_ratio: Tensor | float | None = None) -> dict[str, Tensor]:
        encoded, initial_state = self.read(inputs, training)
        logits, alignments = self.decoder(
            inputs["target_ids"], encoded, memory_mask=inputs.get("padding_mask"),
            initial_state=initial_state, teacher_forcing_ratio=teacher_forcing_ratio,
            training=training)
        return {"encoder_output": encoded, "logits": ops.cast(logits, "float32"),
                "alignments": alignments}

    def encode(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        """What the encoder finds in the source, `(B, S, D)`.

        Args:
            inputs: Dictionary as in a call, of which `token_ids` and `padding_mask` are read.
            training: Whether dropout is on.
        """
        return self.read(inputs, training)[0]

    def start_decoding(self, inputs: dict[str, Tensor], length: int, rows: int = 1
                       ) -> tuple[Nest, Nest]:
        """What decoding begins with.

        Args:
            inputs: As for `encode`.
            length: Tokens of a target at most; states are no longer for it.
            rows: Targets R of each source.

        Returns:
            (cache, memory): the states of each target, and what they all attend to. Both go to
            `decode`, and the cache that it returns to its next call.
        """
        encoded, initial_state = self.read(inputs)
        return self.decoder.start_decoding(encoded, inputs.get("padding_mask"), initial_state,
                                           rows)

    def decode(self, target_ids: Tensor, index: Tensor | int, cache: Nest, memory: Nest,
               padding_mask: Tensor | None = None, return_attention_scores: bool = False
               ) -> tuple[Tensor, ...]:
        """Logits of the next tokens, from those given and the states in the cache.

        Args:
            target_ids: Integers `(B R, T)`, the tokens from position `index` on.
            index: Integer scalar.
            cache, memory: Of `start_decoding`.
            padding_mask: Of the source; not needed, for the memory knows it.
            return_attention_scores: Also return the alignments `(B R, T, S)`.

        Returns:
            `(logits (B R, T, V), cache)`, then the alignments if asked for.
        """
        logits, alignments, cache = self.decoder(target_ids, memory, cache=cache,
                                                 cache_index=index)
        result = ops.cast(logits, "float32"), cache
        return (*result, alignments) if return_attention_scores else result

    def embed(self, inputs: dict[str, Tensor], training: bool | None) -> Tensor:
        """Embeddings of the source, `(B, S, E)`, some dropped."""
        x = ops.cast(ops.take(self.token_embedding, inputs["token_ids"], axis=0),
                     self.compute_dtype)
        return drop(x, self.dropout, self.dropout_generator, training)


def recurrent_layer(kind, units, both_ways, seed, dtype, name):
    """A layer of an encoder that returns its sequence and its last states.

    Args:
        kind: `"gru"` or `"lstm"`.
        units: Of each direction.
        both_ways: Whether another reads backwards.
        seed: Integer for initial weights, of the directions apart.
        dtype: Policy.
        name: Of the layer.
    """
    kind = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}[kind]
    if both_ways:
        return bidirectional(kind, units, seed, dtype, name)
    return recurrent(kind, units, seed, dtype=dtype, name=name)
