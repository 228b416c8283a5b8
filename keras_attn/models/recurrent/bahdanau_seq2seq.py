"""Bahdanau's encoder-decoder."""

from typing import Any

import keras

from keras_attn.layers.nested_layers import as_layer
from keras_attn.layers.padded_rnn import add_embedding, bidirectional, run_rnn
from keras_attn.layers.recurrent import BahdanauDecoderCell, RecurrentDecoder
from keras_attn.layers.seeds import dropout_generator, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.recurrent.seq2seq import Seq2Seq
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.types import Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class BahdanauSeq2Seq(Seq2Seq, keras.Model):
    """RNNsearch: a bidirectional GRU encoder, and a GRU decoder that attends before each step.

    The decoder is a `RecurrentDecoder` with a `BahdanauDecoderCell`. Its initial state is computed
    from the last state of the backward GRU, which is at the first word. Reset gates are applied
    before the matrix product, as in the paper.

    Args:
        vocabulary_size: Source vocabulary size.
        units: Units of the decoder, and of each direction of the encoder.
        embedding_dim: Embedding size; defaults to `units`.
        target_vocabulary_size: Target vocabulary size V; defaults to `vocabulary_size`. Source and
            target have separate embeddings.
        attention_units: Hidden units of the attention score; defaults to `units`.
        readout_units: Size of the readout layer before the logits; defaults to `units`.
        dropout: Dropout rate of the embeddings and of the readout.
        teacher_forcing_ratio: See `RecurrentDecoder`.
        level: See `RecurrentDecoder`.
        label_smoothing: See `sparse_cross_entropy`.
        seed: Integer seed of the initial weights, dropout and sampling.
        readout: See `BahdanauDecoderCell`.
        readout_state: See `BahdanauDecoderCell`.

    Call arguments:
        inputs: Dictionary of integers, as for `Transformer`: `token_ids` and `padding_mask`
            `(B, S)`, `target_ids` `(B, T)`; for losses and metrics also `label` and
            `sample_weight`. Without `padding_mask` all source tokens are real.
        training: Whether dropout is applied and steps may use the model's own predictions.
        teacher_forcing_ratio: Overrides the ratio for this call.

    Returns:
        Dictionary of `encoder_output` `(B, S, 2 units)`, `logits` `(B, T, V)` of the next token and
        `alignments` `(B, T, S)`.

    Losses, metrics and decoding are the same as for `Transformer`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Bahdanau et al., Neural Machine Translation by Jointly Learning to Align and Translate,
        2015, with 1000 units and attention units, embeddings of size 620, 500 readout units, and
        30000 words.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BahdanauSeq2Seq
        >>> model = BahdanauSeq2Seq(vocabulary_size=50, units=8, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 0]]),
        ...                "padding_mask": np.array([[1, 1, 0]]),
        ...                "target_ids": np.array([[2, 9]])})
        >>> print(found["logits"].shape, np.array(found["alignments"])[0, :, 2])  # none to padding
        (1, 2, 50) [0. 0.]
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        embedding_dim: int | None = None,
        target_vocabulary_size: int | None = None,
        attention_units: int | None = None,
        readout_units: int | None = None,
        dropout: float = 0.0,
        teacher_forcing_ratio: float = 1.0,
        level: str = "sequence",
        label_smoothing: float = 0.0,
        seed: int | None = None,
        readout: str = "maxout",
        readout_state: str = "previous",
        name: str | None = "bahdanau_seq2seq",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(vocabulary_size=vocabulary_size, units=units)
        require_sizes(
            optional=True,
            embedding_dim=embedding_dim,
            target_vocabulary_size=target_vocabulary_size,
        )
        require_rates(dropout=dropout, label_smoothing=label_smoothing)
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.embedding_dim = embedding_dim or units
        self.target_vocabulary_size = target_vocabulary_size or vocabulary_size
        self.dropout = dropout
        self.label_smoothing = label_smoothing
        self.seed = seed
        (self._table_seed, self._dropout_seed, encoder_seed, cell_seed, decoder_seed) = split_seed(
            seed, 5
        )
        self.encoder = bidirectional(
            keras.layers.GRU, units, encoder_seed, self.dtype_policy, "encoder", reset_after=False
        )
        cell = BahdanauDecoderCell(
            units,
            attention_units,
            readout_units,
            readout,
            seed=cell_seed,
            readout_state=readout_state,
            dtype=self.dtype_policy,
            name="cell",
        )
        self.decoder = RecurrentDecoder(
            cell,
            self.target_vocabulary_size,
            self.embedding_dim,
            as_layer(teacher_forcing_ratio),
            level,
            dropout,
            seed=decoder_seed,
            dtype=self.dtype_policy,
            name="decoder",
        )

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        self.token_embedding = add_embedding(
            self, "token_embedding", self.vocabulary_size, self.embedding_dim, self._table_seed
        )
        self.dropout_generator = dropout_generator(self.dropout, self._dropout_seed, "dropout")
        self.encoder.build((None, None, self.embedding_dim))
        self.decoder.build((None, None), (None, None, 2 * self.units))
        self.built = True

    @needs_weights
    def read(self, inputs: dict[str, Tensor], training: bool | None = None) -> tuple[Tensor, Nest]:
        """Returns the encoder outputs `(B, S, 2 units)`, and the initial state of the decoder."""
        encoded, _, backward = run_rnn(
            self.encoder,
            self.embed(inputs, training),
            inputs.get("padding_mask"),
            training=training,
        )
        return encoded, backward

    def get_config(self) -> dict[str, Any]:
        decoder = self.decoder.get_config()
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "embedding_dim": self.embedding_dim,
            "target_vocabulary_size": self.target_vocabulary_size,
            "attention_units": self.decoder.cell.attention_units,
            "readout_units": self.decoder.cell.readout_units,
            "readout": self.decoder.cell.readout,
            "readout_state": self.decoder.cell.readout_state,
            "dropout": self.dropout,
            "teacher_forcing_ratio": decoder["teacher_forcing_ratio"],
            "level": decoder["level"],
            "label_smoothing": self.label_smoothing,
            "seed": self.seed,
        }
