"""Luong's encoder-decoder."""

from typing import Any

import keras

from keras_attn.layers.expanded_window_attention import ExpandedWindowAttention
from keras_attn.layers.hard_attention import ESTIMATORS, HardAttention
from keras_attn.layers.local_attention import LocalAttention
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.mixed_attention import MixedAttention
from keras_attn.layers.nested_layers import as_layer, layer_config
from keras_attn.layers.padded_rnn import add_embedding, run_rnn
from keras_attn.layers.recurrent import AttentionCell, RecurrentDecoder
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.models.building import needs_weights
from keras_attn.models.recurrent.seq2seq import (
    Seq2Seq,
    recurrent_layer,
)
from keras_attn.ops.arguments import require_rates, require_sizes
from keras_attn.types import Nest, Shape, Tensor

LOCAL = "local_monotonic", "local_predictive"
WINDOWED = "mixed", "expanded_window"
# "hard" is the name of "gumbel" in versions without other estimators.
HARD = {"hard": "gumbel", **{name: name for name in ESTIMATORS}}
ATTENTIONS = "global", *LOCAL, *WINDOWED, *HARD, None
CELLS = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}


@keras.saving.register_keras_serializable(package="keras_attn")
class LuongSeq2Seq(Seq2Seq, keras.Model):
    """A recurrent encoder, and a recurrent decoder that attends after each step.

    The decoder is a `RecurrentDecoder` with an `AttentionCell` and `LuongAttention`. Its initial
    states are the last states of each encoder layer, with both directions concatenated.

    Args:
        vocabulary_size: Source vocabulary size.
        units: Units of each layer; bidirectional encoder layers have half of them per direction.
        embedding_dim: Embedding size; defaults to `units`.
        target_vocabulary_size: Target vocabulary size V; defaults to `vocabulary_size`. Source and
            target have separate embeddings.
        num_layers: Number of encoder layers, and of decoder layers.
        cell: `"lstm"` or `"gru"`.
        bidirectional: Whether the encoder is bidirectional; the paper's is not.
        attention: None or `"none"` for no attention, or one of:

            - `"global"`;
            - `"local_monotonic"`, `"local_predictive"`: see `LocalAttention`;
            - `"mixed"`: one head of `MixedAttention`, centered at the index of the step;
            - `"expanded_window"`: one head of `ExpandedWindowAttention`, with the keys from
              `t - window` to `t + 2 window - 1` at step t;
            - `"straight_through"`, `"gumbel"`, `"reinforce"`: `HardAttention` with this estimator.
              `"hard"` is the same as `"gumbel"`.
        score: See `Attention`. Unsupported with `"mixed"` and `"expanded_window"`.
        attention_units: Hidden units of the scores `"concat"` and `"additive"`.
        window: Number of keys on either side of the center of local and mixed attention, or in a
            window of `"expanded_window"`.
        input_feeding: Whether the previous attention output is an input of each step. Without it,
            attention is computed for all steps at once, which is faster.
        dropout: Dropout rate of the embeddings, between encoder layers, and before the logits.
        teacher_forcing_ratio: See `RecurrentDecoder`.
        level: See `RecurrentDecoder`.
        label_smoothing: See `sparse_cross_entropy`.
        seed: Integer seed of the initial weights, dropout and sampling.

    Call arguments:
        inputs: Dictionary of integers, as for `Transformer`: `token_ids` and `padding_mask`
            `(B, S)`, `target_ids` `(B, T)`; for losses and metrics also `label` and
            `sample_weight`. Without `padding_mask` all source tokens are real.
        training: Whether dropout is applied and steps may use the model's own predictions.
        teacher_forcing_ratio: Overrides the ratio for this call.

    Returns:
        Dictionary of `encoder_output` `(B, S, units)`, `logits` `(B, T, V)` of the next token and
        `alignments` `(B, T, S)`, which are 0 without attention. With `"reinforce"` in training also
        `draws`, see `RecurrentDecoder`.

    Losses, metrics and decoding are the same as for `Transformer`. With `"reinforce"` there is also
    a loss `reinforce`, the entropy term: its gradient includes that of the probabilities of the
    sampled keys, see `HardAttention.reinforce_errors`. The baseline is a second pass of the decoder
    with the most likely keys.

    Raises:
        ValueError: If an argument is out of range, unknown or has no effect.

    Reference:
        Luong et al., Effective Approaches to Attention-based Neural Machine Translation, 2015, with
        4 layers of 1000 units and reversed sources.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import LuongSeq2Seq
        >>> model = LuongSeq2Seq(vocabulary_size=50, units=8, seed=0)
        >>> found = model({"token_ids": np.array([[4, 7, 0]]),
        ...                "padding_mask": np.array([[1, 1, 0]]),
        ...                "target_ids": np.array([[2, 9]])})
        >>> print(found["logits"].shape, np.array(found["alignments"])[0, :, 2])  # none to padding
        (1, 2, 50) [0. 0.]
    """

    SAME_BATCH = ("target_ids",)

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        embedding_dim: int | None = None,
        target_vocabulary_size: int | None = None,
        num_layers: int = 1,
        cell: str = "lstm",
        bidirectional: bool = True,
        attention: str | None = "global",
        score: str = "bilinear",
        attention_units: int | None = None,
        window: float = 10,
        input_feeding: bool = True,
        dropout: float = 0.0,
        teacher_forcing_ratio: float = 1.0,
        level: str = "sequence",
        label_smoothing: float = 0.0,
        seed: int | None = None,
        name: str | None = "luong_seq2seq",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(vocabulary_size=vocabulary_size, units=units, num_layers=num_layers)
        require_sizes(
            optional=True,
            embedding_dim=embedding_dim,
            attention_units=attention_units,
            target_vocabulary_size=target_vocabulary_size,
        )
        require_rates(dropout=dropout, label_smoothing=label_smoothing)
        if cell not in CELLS:
            raise ValueError(
                f"LuongSeq2Seq: cell must be one of {', '.join(CELLS)}. Received: cell={cell!r}"
            )
        attention = None if attention == "none" else attention
        if attention not in ATTENTIONS:
            raise ValueError(
                "LuongSeq2Seq: attention must be one of "
                f"{', '.join(map(repr, ATTENTIONS))}. "
                f"Received: attention={attention!r}"
            )
        if attention in (None, *WINDOWED):
            reject_unused(
                "an attention with a score function",
                # "general" is another name of the default.
                score=("bilinear" if score == "general" else score, "bilinear"),
                attention_units=(attention_units, None),
            )
        if attention not in (*LOCAL, *WINDOWED):
            reject_unused("local, mixed or expanded_window attention", window=(window, 10))
        if bidirectional and units % 2:
            raise ValueError(
                "LuongSeq2Seq: units must be even for a bidirectional encoder. "
                f"Received: units={units}, bidirectional={bidirectional}"
            )
        self.vocabulary_size = vocabulary_size
        self.units = units
        self.embedding_dim = embedding_dim or units
        self.target_vocabulary_size = target_vocabulary_size or vocabulary_size
        self.num_layers = num_layers
        self.cell = cell
        self.bidirectional = bidirectional
        self.attention = attention
        self.score = as_layer(score)  # a layer, or its name
        self.attention_units = attention_units
        self.window = window
        self.input_feeding = input_feeding
        self.dropout = dropout
        self.label_smoothing = label_smoothing
        self.seed = seed
        (self._table_seed, self._dropout_seed, attention_seed, decoder_seed, *seeds) = split_seed(
            seed, 4 + 2 * num_layers
        )
        layer_units = units // 2 if bidirectional else units
        self.encoder_layers = [
            recurrent_layer(
                cell,
                layer_units,
                bidirectional,
                seeds.pop(),
                self.dtype_policy,
                f"encoder_layer_{i}",
            )
            for i in range(num_layers)
        ]
        attention_cell = AttentionCell(
            self._cell(seeds),
            self._attention(attention_seed),
            input_feeding=input_feeding,
            dtype=self.dtype_policy,
            name="cell",
        )
        self.decoder = RecurrentDecoder(
            attention_cell,
            self.target_vocabulary_size,
            self.embedding_dim,
            as_layer(teacher_forcing_ratio),
            level,
            dropout,
            seed=decoder_seed,
            dtype=self.dtype_policy,
            name="decoder",
        )

    def _cell(self, seeds):
        cells = []
        for i, seed in enumerate(seeds):
            kernel_seed, recurrent_seed = split_seed(seed, 2)
            cells.append(
                CELLS[self.cell](
                    self.units,
                    seed=seed,
                    dtype=self.dtype_policy,
                    name=f"layer_{i}",
                    kernel_initializer=seeded_initializer("glorot_uniform", kernel_seed),
                    recurrent_initializer=seeded_initializer("orthogonal", recurrent_seed),
                )
            )
        if len(cells) == 1:
            return cells[0]
        return keras.layers.StackedRNNCells(cells, dtype=self.dtype_policy, name="layers")

    def _attention(self, seed):
        if self.attention is None:
            return None
        output_seed, seed = split_seed(seed, 2)
        named = {"seed": seed, "dtype": self.dtype_policy, "name": "attention"}
        scored = {"score": self.score, "units": self.attention_units, **named}
        inner, given = None, {}
        if self.attention == "global":
            given = {"score": self.score, "attention_units": self.attention_units}
        elif self.attention in HARD:
            inner = HardAttention(HARD[self.attention], **scored)
        elif self.attention == "mixed":
            inner = MixedAttention(1, self.units, self.window, **named)
        elif self.attention == "expanded_window":
            inner = ExpandedWindowAttention(1, self.units, self.window, self.window, **named)
        else:
            inner = LocalAttention(self.window, self.attention.removeprefix("local_"), **scored)
        return LuongAttention(
            self.units,
            **given,
            attention=inner,
            seed=output_seed,
            dtype=self.dtype_policy,
            name="luong_attention",
        )

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        self.token_embedding = add_embedding(
            self, "token_embedding", self.vocabulary_size, self.embedding_dim, self._table_seed
        )
        self.dropout_generator = dropout_generator(self.dropout, self._dropout_seed, "dropout")
        depth = self.embedding_dim
        for layer in self.encoder_layers:
            layer.build((None, None, depth))
            depth = self.units
        self.decoder.build((None, None), (None, None, self.units))
        self.built = True

    @needs_weights
    def read(self, inputs: dict[str, Tensor], training: bool | None = None) -> tuple[Tensor, Nest]:
        """Returns the encoder outputs `(B, S, units)`, and the initial states of the decoder."""
        x, mask, states = self.embed(inputs, training), inputs.get("padding_mask"), []
        for i, layer in enumerate(self.encoder_layers):
            if i:
                x = drop(x, self.dropout, self.dropout_generator, training)
            x, *last = run_rnn(layer, x, mask, training=training)
            if self.bidirectional:
                half = len(last) // 2
                last = [
                    keras.ops.concatenate(pair, axis=-1)
                    for pair in zip(last[:half], last[half:], strict=True)
                ]
            states.append(last)
        return x, states[0] if self.num_layers == 1 else states

    def get_config(self) -> dict[str, Any]:
        decoder = self.decoder.get_config()
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "embedding_dim": self.embedding_dim,
            "target_vocabulary_size": self.target_vocabulary_size,
            "num_layers": self.num_layers,
            "cell": self.cell,
            "bidirectional": self.bidirectional,
            "attention": self.attention,
            "score": self.score if isinstance(self.score, str) else layer_config(self.score, self),
            "attention_units": self.attention_units,
            "window": self.window,
            "input_feeding": self.input_feeding,
            "dropout": self.dropout,
            "teacher_forcing_ratio": decoder["teacher_forcing_ratio"],
            "level": decoder["level"],
            "label_smoothing": self.label_smoothing,
            "seed": self.seed,
        }
