"""Beam search."""

from collections.abc import Callable
from dataclasses import dataclass

import keras
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, as_token_matrix, constrain
from keras_attn.generation.loop import compile_if_large, decode_while
from keras_attn.generation.top_k import top_k_logits
from keras_attn.ops.arguments import require_not_negative, require_numbers, require_sizes
from keras_attn.types import Nest, Tensor


def beam_search(
    step: Callable[[Tensor, Tensor, Nest], tuple[Nest, ...]],
    cache: Nest,
    begin_ids: Tensor,
    beams: int,
    max_length: int,
    end_id: int,
    *,
    length_penalty: float = 0.6,
    coverage_penalty: float = 0.0,
    early_stopping: bool = False,
    source_length: Tensor | int | None = None,
    source_mask: Tensor | None = None,
    return_attention: bool = False,
    max_lengths: Tensor | None = None,
    min_length: int = 0,
    no_repeat: int = 0,
    prefix: Tensor | None = None,
    prompt: Tensor | None = None,
    pad_id: int = 0,
    reorder: Callable[[Nest, Tensor], Nest] | None = None,
) -> dict[str, Tensor]:
    """Finds the most probable sequences of each row by beam search.

    A hypothesis has the score `log P / ((5 + length) / 6)^length_penalty`, where the length
    includes the end-of-sequence token; `coverage_penalty` adds
    `coverage_penalty * sum_s log(min(sum_t attention[t, s], 1))`. Finished hypotheses are kept
    separately from the `beams` unfinished ones. A row ends when no unfinished hypothesis can reach
    a better score than its finished ones. With `beams=1` this is greedy decoding.

    Args:
        step: Step function, see `keras_attn.generation`; N is `B beams`, with the hypotheses of a
            row next to each other. With `coverage_penalty` or `return_attention` it must also
            return the attention.
        cache: Cache of the first step, see `keras_attn.generation`.
        begin_ids: Integers `(B,)`, the token before the first decoded one; not part of the result.
        beams: Beam width K, which is also the number of returned sequences.
        max_length: Maximum number of tokens, including the end-of-sequence token.
        end_id: Id of the end-of-sequence token.
        length_penalty: Exponent of the length penalty. 0: scores are log probabilities, which
            favors short sequences.
        coverage_penalty: Weight of the coverage penalty; 0 disables it.
        early_stopping: Whether a row ends as soon as it has K finished hypotheses, even if better
            ones are possible.
        source_length: Length S of the source; required for attention.
        source_mask: Boolean `(B, S)`, False for padding, which needs no coverage. None: no padding.
        return_attention: Whether to return the attention of each token.
        max_lengths: Integers `(B,)` in [1, `max_length`], the maximum length per row; defaults to
            `max_length`.
        min_length: Minimum number of tokens before the end-of-sequence token.
        no_repeat: Size of the n-grams that must not occur twice, including those in `prompt`. 0
            allows repetition.
        prefix: Integers `(B, P)`, forced first tokens; -1 allows any token.
        prompt: Integers `(B, Q)`, the tokens before the decoded ones, left-padded with -1; only
            used by `no_repeat`.
        pad_id: Id of the padding token after the end.
        reorder: Function of the cache and integers `(N,)`, the parent of each hypothesis, that
            returns the cache of the parents. By default, it gathers the rows of every tensor.

    Returns:
        Dictionary, in descending order of scores but with unfinished hypotheses last: `token_ids`
        int32 `(B, K, max_length)`, including the end-of-sequence token; `lengths` int32, `scores`
        and `log_probabilities` float32 `(B, K)`; `finished`, boolean `(B, K)`; and with
        `return_attention` the `attention` `(B, K, max_length, S)`. A score of -1e30 marks a missing
        sequence, if there are fewer than K.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Wu et al., Google's Neural Machine Translation System, 2016, eq. 14.
    """
    require_sizes(beams=beams, max_length=max_length)
    require_sizes(low=0, min_length=min_length, no_repeat=no_repeat)
    require_numbers(length_penalty=length_penalty)
    require_not_negative(coverage_penalty=coverage_penalty)
    if (coverage_penalty or return_attention) and source_length is None:
        raise ValueError(
            "beam_search: coverage_penalty and return_attention require "
            "source_length. Received: source_length=None"
        )
    begin_ids = ops.cast(begin_ids, "int32")
    rows = begin_ids.shape[0] if begin_ids.shape[0] is not None else ops.shape(begin_ids)[0]
    limits = ops.full((rows,), max_length, "int32")
    if max_lengths is not None:
        limits = ops.clip(ops.cast(max_lengths, "int32"), 1, max_length)
    constraints: dict[str, Tensor] = {
        "end_id": end_id,
        "min_length": min_length,
        "no_repeat": no_repeat,
    }
    for name, tokens in (("prefix", prefix), ("prompt", prompt)):
        tokens = as_token_matrix(name, tokens, rows)
        constraints[name] = None if tokens is None else ops.repeat(tokens, beams, axis=0)
    search = _Search(
        step,
        reorder,
        rows,
        beams,
        max_length,
        limits,
        constraints,
        length_penalty,
        coverage_penalty,
        early_stopping,
        source_length,
        source_mask,
        return_attention,
        pad_id,
    )
    return search.result(
        decode_while(search.has_unfinished, search.advance, search.start(begin_ids, cache))
    )


@dataclass(frozen=True)
class _Search:
    """State transitions of the search over a batch; hypotheses are nests of `(B, X, ...)`.

    Attributes:
        rows: B.
        limits: `(B,)`, the maximum length of each row.
        constraints: Keyword arguments of `constrain`.
        Others: The arguments of `beam_search`.
    """

    step: object
    reorder: object
    rows: object
    beams: int
    max_length: int
    limits: object
    constraints: dict
    length_penalty: float
    coverage_penalty: float
    early_stopping: bool
    source_length: object
    source_mask: object
    return_attention: bool
    pad_id: int

    def start(self, begin_ids, cache):
        """Returns the state before the first step."""
        shape = self.rows, self.beams
        none = ops.full(shape, IMPOSSIBLE, "float32")
        begin = ops.broadcast_to(begin_ids[:, None, None], (*shape, 1))
        empty = {
            "ids": ops.concatenate(
                [begin, ops.full((*shape, self.max_length), self.pad_id, "int32")], axis=2
            )
        }
        if self.coverage_penalty:
            empty["coverage"] = ops.zeros((*shape, self.source_length), "float32")
        rest = {"cache": cache}
        if self.return_attention:
            # The attention is never reordered. Instead, each hypothesis records which beam wrote
            # each of its positions.
            rest["attention"] = ops.zeros(
                (self.rows, self.max_length, self.beams, self.source_length), "float32"
            )
            empty["writers"] = ops.zeros((*shape, self.max_length), "int32")
        # Only one initial hypothesis: K identical ones would stay identical.
        first = ops.where(ops.arange(self.beams)[None] == 0, 0.0, none)
        return {
            "index": ops.zeros((), "int32"),
            **rest,
            "alive": {**empty, "log_probabilities": first},
            "finished": {
                **empty,
                "log_probabilities": none,
                "scores": none,
                "lengths": ops.zeros(shape, "int32"),
            },
            "done": ops.zeros((self.rows,), "bool"),
        }

    def has_unfinished(self, state):
        """Whether any row is unfinished."""
        return ops.logical_and(
            state["index"] < self.max_length, ops.logical_not(ops.all(state["done"]))
        )

    def advance(self, state):
        """Returns the state after one more token."""
        index, done = state["index"], state["done"]
        new, rest = self._continuations(state)
        # Only ends among the K best continuations count as finished, so that K = 1 is greedy.
        at_end = new.pop("tokens") == self.constraints["end_id"]
        best = new["log_probabilities"]
        number = best.shape[1]
        ended = ops.logical_and(
            ops.logical_and(at_end, best > IMPOSSIBLE / 2), ops.arange(number) < self.beams
        )
        parents = new.pop("parents")
        new_finished = {
            **new,
            "lengths": ops.broadcast_to(index + 1, (self.rows, number)),
            "scores": ops.where(ended, self._scores(new, index + 1), IMPOSSIBLE),
        }
        finished = self._best(_concatenate(state["finished"], new_finished), "scores")
        unfinished = {
            **new,
            "log_probabilities": ops.where(at_end, IMPOSSIBLE, best),
            "parents": parents,
        }
        alive = self._best(unfinished, "log_probabilities")
        rest["cache"] = (self.reorder or self._gather_rows)(
            rest["cache"], self._flat_indices(alive.pop("parents"))
        )
        result = {
            "index": index + 1,
            **rest,
            "alive": self._freeze(done, state["alive"], alive),
            "finished": self._freeze(done, state["finished"], finished),
        }
        over = ops.logical_or(index + 1 >= self.limits, self._is_done(result))
        return {**result, "done": ops.logical_or(done, over)}

    def _continuations(self, state):
        """Returns the 2 K best continuations by one token in order, and the rest of the state."""
        index, alive, beams = state["index"], state["alive"], self.beams
        flat = ops.reshape(alive["ids"], (self.rows * beams, self.max_length + 1))
        logits, cache, *attention = self.step(ops.take(flat, index, axis=1), index, state["cache"])
        logits = ops.cast(logits, "float32")
        # At least K of the 2 K do not end, since each hypothesis has one continuation that ends.
        size = min(2 * beams, logits.shape[-1])

        def continuations(logits, flat, index):
            values, tokens = top_k_logits(constrain(logits, flat, index, **self.constraints), size)
            return values - ops.logsumexp(logits, axis=-1, keepdims=True), tokens

        values, tokens = compile_if_large(continuations, logits, flat, index)
        totals = ops.reshape(values, (self.rows, beams, size))
        totals = ops.reshape(
            totals + alive["log_probabilities"][..., None], (self.rows, beams * size)
        )
        best, places = ops.top_k(totals, min(2 * beams, beams * size))
        places = ops.cast(places, "int32")
        parents = places // size
        tokens = ops.take_along_axis(ops.reshape(tokens, (self.rows, beams * size)), places, axis=1)
        new = self._gather(alive, parents)
        new.update(log_probabilities=best, tokens=tokens, parents=parents)
        new["ids"] = ops.slice_update(new["ids"], (0, 0, index + 1), tokens[..., None])
        rest = {"cache": cache}
        if self.coverage_penalty or self.return_attention:
            newest = ops.reshape(
                ops.cast(attention[0], "float32"), (self.rows, beams, self.source_length)
            )
        if self.coverage_penalty:
            new["coverage"] = new["coverage"] + self._gather(newest, parents)
        if self.return_attention:
            rest["attention"] = ops.slice_update(
                state["attention"], (0, index, 0, 0), newest[:, None]
            )
            new["writers"] = ops.slice_update(new["writers"], (0, 0, index), parents[..., None])
        return new, rest

    def _scores(self, found, length):
        length = ops.cast(length, "float32")
        scores = found["log_probabilities"] / ((5.0 + length) / 6.0) ** self.length_penalty
        if not self.coverage_penalty:
            return scores
        missed = ops.log(ops.clip(found["coverage"], 1e-9, 1.0))
        if self.source_mask is not None:
            missed = ops.where(ops.cast(self.source_mask, "bool")[:, None], missed, 0.0)
        return scores + self.coverage_penalty * ops.sum(missed, axis=-1)

    def _is_done(self, state):
        """Whether no unfinished hypothesis of a row can beat its finished ones."""
        worst = state["finished"]["scores"][:, -1]
        enough = worst > IMPOSSIBLE / 2
        none = state["alive"]["log_probabilities"][:, 0] <= IMPOSSIBLE / 2
        if self.early_stopping or self.beams == 1:
            return ops.logical_or(enough, none)
        # The coverage penalty can only lower a score, but the divisor may grow with the length.
        longest = self.limits if self.length_penalty > 0 else state["index"]
        best_possible = (
            state["alive"]["log_probabilities"][:, 0]
            / ((5.0 + ops.cast(longest, "float32")) / 6.0) ** self.length_penalty
        )
        return ops.logical_or(none, ops.logical_and(enough, worst >= best_possible))

    def result(self, state):
        """Returns the finished hypotheses, followed by the unfinished ones."""
        alive, finished = state["alive"], state["finished"]
        lengths = ops.broadcast_to(
            ops.minimum(state["index"], self.limits)[:, None], (self.rows, self.beams)
        )
        possible = alive["log_probabilities"] > IMPOSSIBLE / 2
        scores = ops.where(possible, self._scores(alive, lengths), IMPOSSIBLE)
        alive = {**alive, "scores": scores, "lengths": lengths}
        ended = ops.sum(ops.cast(finished["scores"] > IMPOSSIBLE / 2, "int32"), axis=1)[:, None]
        order = ops.arange(self.beams, dtype="int32")[None]
        places = ops.where(order < ended, order, self.beams + order - ended)
        found = self._gather(_concatenate(finished, alive), places)
        found.pop("coverage", None)
        if self.return_attention:
            found["attention"] = self._attention(
                state["attention"], found.pop("writers"), found["lengths"]
            )
        return {"token_ids": found.pop("ids")[:, :, 1:], **found, "finished": order < ended}

    def _attention(self, all_attention, writers, lengths):
        """Gathers each hypothesis's attention `(B, K, L, S)` from the beams of its tokens."""
        positions = ops.arange(self.max_length, dtype="int32")
        rows = ops.arange(self.rows, dtype="int32")[:, None, None]
        numbers = (rows * self.max_length + positions) * self.beams + writers
        found = ops.take(ops.reshape(all_attention, (-1, self.source_length)), numbers, axis=0)
        return ops.where((positions < lengths[..., None])[..., None], found, 0.0)

    def _best(self, nest, name):
        """Returns the K hypotheses with the highest `name`, best first."""
        _, places = ops.top_k(nest[name], self.beams)
        return self._gather(nest, ops.cast(places, "int32"))

    def _gather(self, nest, places):
        """Gathers the hypotheses of each row at `places` `(B, Y)`."""

        def chosen(x):
            count, rest = x.shape[1], ops.shape(x)[2:]
            flat = ops.reshape(x, (self.rows * count, *rest))
            found = ops.take(flat, self._flat_indices(places, count), axis=0)
            return ops.reshape(found, (self.rows, places.shape[1], *rest))

        return keras.tree.map_structure(chosen, nest)

    def _gather_rows(self, nest, numbers):
        """Gathers rows of nests of `(B K, ...)`."""
        counts = {x.shape[0] for x in keras.tree.flatten(nest)} - {None}
        if isinstance(self.rows, int) and counts - {self.rows * self.beams}:
            raise ValueError(
                f"beam_search: the first axis of the cache must have size {self.rows * self.beams} "
                "(one row per hypothesis). Pass reorder for other layouts. "
                f"Received: first axes of size {sorted(counts)}"
            )
        return keras.tree.map_structure(lambda x: ops.take(x, numbers, axis=0), nest)

    def _flat_indices(self, places, count=None):
        """Converts positions among the `count` hypotheses of each row to flat indices."""
        first = (count or self.beams) * ops.arange(self.rows, dtype="int32")[:, None]
        return ops.reshape(places + first, (-1,))

    def _freeze(self, done, before, now):
        """Selects the old values for finished rows, and the new ones for the others."""
        return keras.tree.map_structure(
            lambda old, new: ops.where(
                ops.reshape(done, (self.rows, *[1] * (len(new.shape) - 1))), old, new
            ),
            before,
            now,
        )


def _concatenate(first, second):
    """Concatenates two nests of hypotheses."""
    return keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=1), first, second)
