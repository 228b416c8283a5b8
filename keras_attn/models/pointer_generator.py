"""Pointer-generator network."""

from typing import Any

import keras
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE
from keras_attn.layers.copy_distribution import CopyDistribution
from keras_attn.layers.padded_rnn import bidirectional, recurrent, run_rnn
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.padding import real_tokens
from keras_attn.models.row_cache import RowCache
from keras_attn.models.task import Losses, label_weights
from keras_attn.ops.arguments import require_not_negative, require_sizes
from keras_attn.ops.coverage import coverage_loss
from keras_attn.ops.cross_entropy import hits
from keras_attn.ops.time_loop import run_time_loop
from keras_attn.ops.weights import masked_softmax, weighted_average
from keras_attn.types import Nest, Shape, Tensor

# A label that can be neither generated nor copied has probability 0 and a constant loss of 23. For
# unlikely labels, in contrast, the loss must have a gradient, however large it is.
IMPOSSIBLE_PROBABILITY, SMALLEST_NUMBER = 1e-10, 1e-30


@keras.saving.register_keras_serializable(package="keras_attn")
class PointerGenerator(RowCache, Losses, keras.Model):
    """Summarization model that generates words or copies them from the source.

    With h the states of a BiLSTM over the source and s_t of an LSTM over the target,
    `e_ti = v^T tanh(W_h h_i + W_s s_t + w_c c_ti + b)`, `a_t = softmax_i(e_t)`, the coverage `c_t`
    is the sum of a before t, `h*_t = sum_i a_ti h_i`,
    `P_vocabulary = softmax(V' (V [s_t; h*_t] + b) + b')`,
    `p_gen = sigmoid(w_h h*_t + w_s s_t + w_x x_t + b)`, and P is given by `CopyDistribution`.

    Args:
        vocabulary_size: Size V of the vocabulary, shared by source and target.
        num_oov: Maximum number of out-of-vocabulary words in a source. They have the ids V to
            `V + num_oov - 1`, in the order of their first occurrence.
        embedding_dim: Embedding size.
        units: Units of the LSTMs, per direction of the encoder.
        attention_units: Hidden units of the attention; defaults to `2 units`.
        coverage: Whether to use coverage in the attention and in the loss.
        coverage_weight: Weight of the coverage loss.
        unknown_id: Id that replaces out-of-vocabulary words as model inputs.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: Dictionary of integers.
            `token_ids` `(B, S)`, the source, with ids from V for out-of-vocabulary words.
            `padding_mask` `(B, S)`, optional; 1 for real tokens. By default, id 0 is padding.
            `target_ids` `(B, T)`, the target, starting with the begin token.
            For losses and metrics also `label` `(B, T)`, the target up to the end-of-sequence
                token; like `target_ids`, with ids from V for words to copy.
            `sample_weight` `(B, T)`, optional: 0 for padding.

    Returns:
        Dictionary, float32: `probabilities` P `(B, T, V + num_oov)`, `attention` `(B, T, S)`,
        `coverage` c `(B, T, S)`, `generation_probability` p_gen `(B, T)`.

    Decoding is the same as for `Transformer`, with log probabilities as logits. `fit` requires a
    dataset of such dictionaries. Losses `token`: -log P(label), 23 for words of probability 0, and
    with coverage `coverage`, including its weight; metric `token_accuracy`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        See et al., Get To The Point: Summarization with Pointer-Generator Networks, 2017, eq. 1-13.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import PointerGenerator
        >>> model = PointerGenerator(vocabulary_size=9, num_oov=2, embedding_dim=4, units=4, seed=0)
        >>> found = model({"token_ids": np.array([[4, 9, 5]]), "target_ids": np.array([[2, 4]])})
        >>> p = np.array(found["probabilities"])[0]  # id 9 is in the source, 10 is nowhere
        >>> print(p.shape, p.sum(axis=-1).round(3), p[:, 9] > 0, p[:, 10])
        (2, 11) [1. 1.] [ True  True] [0. 0.]
    """

    INPUTS = {"token_ids": "BT", "padding_mask": "BT", "target_ids": "BS"}
    SAME_BATCH = ("target_ids",)
    REQUIRED = ("token_ids", "target_ids")

    def __init__(
        self,
        vocabulary_size: int,
        num_oov: int = 0,
        embedding_dim: int = 128,
        units: int = 256,
        attention_units: int | None = None,
        coverage: bool = True,
        coverage_weight: float = 1.0,
        unknown_id: int = 1,
        seed: int | None = None,
        name: str | None = "pointer_generator",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(units=units)
        attention_units = 2 * units if attention_units is None else attention_units
        self.sizes = {
            "vocabulary_size": vocabulary_size,
            "embedding_dim": embedding_dim,
            "units": units,
            "attention_units": attention_units,
        }
        require_sizes(**self.sizes)
        require_sizes(low=0, num_oov=num_oov, unknown_id=unknown_id)
        require_not_negative(coverage_weight=coverage_weight)
        if unknown_id >= vocabulary_size:
            raise ValueError(
                "PointerGenerator: unknown_id must be in the vocabulary. Received: "
                f"unknown_id={unknown_id}, vocabulary_size={vocabulary_size}"
            )
        self.num_oov = num_oov
        self.coverage = coverage
        self.coverage_weight = coverage_weight
        self.unknown_id = unknown_id
        self.seed = seed

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        units, embedding_dim = self.sizes["units"], self.sizes["embedding_dim"]
        encoder_seed, decoder_seed, score_seed, coverage_seed, *seeds = split_seed(self.seed, 10)
        self.embedding = keras.layers.Embedding(
            self.sizes["vocabulary_size"],
            embedding_dim,
            dtype=self.dtype_policy,
            embeddings_initializer=seeded_initializer("uniform", seeds.pop()),
            name="embedding",
        )
        self.encoder = bidirectional(
            keras.layers.LSTM, units, encoder_seed, self.dtype_policy, "encoder"
        )
        self.decoder = recurrent(
            keras.layers.LSTM, units, decoder_seed, dtype=self.dtype_policy, name="decoder"
        )
        self.score = AdditiveScore(
            self.sizes["attention_units"],
            use_bias=True,
            seed=score_seed,
            dtype=self.dtype_policy,
            name="score",
        )
        self.hidden_bridge, self.cell_bridge, self.output_hidden = (
            self._dense(units, name, seeds.pop(), activation)
            for name, activation in (
                ("hidden_bridge", "relu"),
                ("cell_bridge", "relu"),
                ("output_hidden", None),
            )
        )
        self.output_words = self._dense(
            self.sizes["vocabulary_size"], "output_words", seeds.pop(), dtype="float32"
        )
        self.generation = self._dense(1, "generation", seeds.pop(), "sigmoid", dtype="float32")
        self.copying = CopyDistribution(self.num_oov, dtype="float32", name="copying")
        self.embedding.build(None)
        self.encoder.build((None, None, embedding_dim))
        self.decoder.build((None, None, embedding_dim))
        self.score.build((None, None, units), (None, None, 2 * units))
        for dense, depth in (
            (self.hidden_bridge, 2 * units),
            (self.cell_bridge, 2 * units),
            (self.output_hidden, 3 * units),
            (self.output_words, units),
            (self.generation, 3 * units + embedding_dim),
        ):
            dense.build((None, depth))
        self.copying.build(None, None, None, None)  # type: ignore[arg-type]  # it has no weights
        if self.coverage:
            self.coverage_kernel = self.add_weight(
                name="coverage_kernel",
                shape=(1, self.sizes["attention_units"]),
                initializer=seeded_initializer("glorot_uniform", coverage_seed),
                autocast=False,
            )
        self.built = True

    def _dense(self, units, name, seed, activation=None, dtype=None):
        return keras.layers.Dense(
            units,
            activation,
            kernel_initializer=seeded_initializer("glorot_uniform", seed),
            dtype=dtype or self.dtype_policy,
            name=name,
        )

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        memory, state = self._encode(inputs)
        found, _ = self._steps(inputs["target_ids"], state, _no_coverage(memory), memory)
        attention = found["attention"]
        return {**found, "coverage": ops.cumsum(attention, axis=1) - attention}

    def attention_of(self, results: dict[str, Tensor]) -> Tensor:
        """Returns the attention to the source among the results of a call."""
        return results["attention"]

    def _encode(self, inputs):
        """Returns the encoded source, which all steps attend to, and the state before the first
        step.
        """
        mask, ids = real_tokens(inputs), inputs["token_ids"]
        encoded, hidden, cell, last_hidden, last_cell = run_rnn(
            self.encoder, self._embed(ids), mask
        )
        state = [
            self.hidden_bridge(ops.concatenate([hidden, last_hidden], axis=-1)),
            self.cell_bridge(ops.concatenate([cell, last_cell], axis=-1)),
        ]
        keys = self.score.project_key(encoded)
        return {"encoded": encoded, "keys": keys, "mask": mask, "ids": ids}, state

    def _embed(self, ids):
        known = ops.cast(ids, "int32") < self.sizes["vocabulary_size"]
        return self.embedding(ops.where(known, ids, self.unknown_id))

    def _steps(self, target_ids, state, coverage, memory):
        """Returns the results of these steps as in a call, and the state and the coverage after
        them.
        """
        x, one = self._embed(target_ids), target_ids.shape[1] == 1  # no loop for a single step
        if one:
            states, state = self.decoder.cell(x[:, 0], state)
            states = states[:, None]
        else:
            states, *state = run_rnn(self.decoder, x, initial_state=state)
        queries = self.score.project_query(states)
        if not self.coverage:
            # The attention steps are independent, so all are computed at once.
            attention = masked_softmax(
                self.score.from_projected(queries, memory["keys"]), memory["mask"][:, None]
            )
            coverage = coverage + ops.sum(attention, axis=1)
        elif one:
            attention, coverage = self._attend(memory)(queries[:, 0], coverage)
            attention = attention[:, None]
        else:
            attention, coverage = run_time_loop(self._attend(memory), queries, coverage)
        found = self._distribution(x, states, attention, memory)
        return {**found, "attention": attention}, (state, coverage)

    def _attend(self, memory):
        """Returns a function of a projected query `(B, U)` and the coverage that updates the
        coverage.

        The function returns the attention and the new coverage.
        """
        kernel = ops.convert_to_tensor(self.coverage_kernel)

        def attend(query, coverage):
            keys = memory["keys"]
            keys = keys + ops.cast(coverage[..., None] * kernel, keys.dtype)
            attention = masked_softmax(
                self.score.from_projected(query[:, None], keys)[:, 0], memory["mask"]
            )
            return attention, coverage + attention

        return attend

    def _distribution(self, x, states, attention, memory):
        context = weighted_average(attention, memory["encoded"])
        joined = ops.concatenate([states, context], axis=-1)
        words = ops.softmax(self.output_words(self.output_hidden(joined)), axis=-1)
        generate = self.generation(ops.concatenate([context, states, x], axis=-1))
        return {
            "probabilities": self.copying(words, attention, memory["ids"], generate),
            "generation_probability": generate[..., 0],
        }

    @needs_weights
    def start_decoding(
        self, inputs: dict[str, Tensor], length: int, rows: int = 1
    ) -> tuple[Nest, Nest]:
        """Prepares decoding.

        Args:
            inputs: As in a call, without targets.
            length: Maximum number of tokens of a target; unused, as the size of the state is fixed.
            rows: Number of targets R per source.

        Returns:
            (cache, memory): the states of each of the `B R` targets, and what they all attend to.
            Both are arguments of `decode`, which returns the cache for its next call.
        """
        memory, (hidden, cell) = self._encode(inputs)
        if rows > 1:
            memory, hidden, cell = keras.tree.map_structure(
                lambda x: ops.repeat(x, rows, axis=0), (memory, hidden, cell)
            )
        return {"hidden": hidden, "cell": cell, "coverage": _no_coverage(memory)}, memory

    def decode(
        self,
        target_ids: Tensor,
        index: Tensor | int,
        cache: Nest,
        memory: Nest,
        padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Tensor, ...]:
        """Returns the log probabilities of the next tokens, given these tokens and the states in
        the cache.

        Args:
            target_ids: Integers `(B R, T)`, the tokens from position `index`.
            index: Integer scalar; unused, as the cache contains the state.
            cache: As returned by `start_decoding` or the previous call.
            memory: As returned by `start_decoding`.
            padding_mask: Unused, as the memory contains it.
            return_attention_scores: Whether to return the attention to the source `(B R, T, S)`.

        Returns:
            `(log probabilities (B R, T, V + num_oov), cache)`, then the attention if requested. The
            log of 0 is -1e30.
        """
        found, ((hidden, cell), coverage) = self._steps(
            target_ids, [cache["hidden"], cache["cell"]], cache["coverage"], memory
        )
        p = found["probabilities"]
        logs = ops.where(p > 0, ops.log(ops.maximum(p, 1e-37)), IMPOSSIBLE)
        result = logs, {"hidden": hidden, "cell": cell, "coverage": coverage}
        return (*result, found["attention"]) if return_attention_scores else result

    @property
    def metric_names(self) -> list[str]:
        return ["token_loss", *["coverage_loss"] * self.coverage, "token_accuracy"]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        weight = ops.sum(label_weights(batch, batch["label"]))
        return {"token": weight, **({"coverage": weight} if self.coverage else {})}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        weights, p = label_weights(batch, batch["label"]), outputs["probabilities"]
        label = ops.cast(batch["label"], "int32")[..., None]
        own = ops.take_along_axis(p, label, axis=-1)[..., 0]
        own = ops.where(own > SMALLEST_NUMBER, own, IMPOSSIBLE_PROBABILITY)
        errors = {"token": -ops.sum(weights * ops.log(own))}
        if self.coverage:
            again = coverage_loss(outputs["attention"], outputs["coverage"])
            errors["coverage"] = self.coverage_weight * ops.sum(weights * again)
        return errors

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = label_weights(batch, batch["label"])
        correct = hits(batch["label"], outputs["probabilities"])
        return {"token_accuracy": (ops.sum(weights * correct), ops.sum(weights))}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            "num_oov": self.num_oov,
            "coverage": self.coverage,
            "coverage_weight": self.coverage_weight,
            "unknown_id": self.unknown_id,
            "seed": self.seed,
        }


def _no_coverage(memory):
    return ops.zeros_like(memory["ids"], dtype="float32")
