"""Beam search."""

from collections.abc import Callable
from dataclasses import dataclass

import keras
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, constrain, read_tokens
from keras_attn.generation.likeliest import likeliest
from keras_attn.generation.loop import decode_while, in_few_passes
from keras_attn.ops.arguments import require_not_negative, require_numbers, require_sizes
from keras_attn.types import Nest, Tensor


def beam_search(step: Callable[[Tensor, Tensor, Nest], tuple[Nest, ...]], cache: Nest,
                begin_ids: Tensor, beams: int, max_length: int, end_id: int, *,
                length_penalty: float = 0.6, coverage_penalty: float = 0.0,
                early_stopping: bool = False, source_length: Tensor | int | None = None,
                source_mask: Tensor | None = None, return_attention: bool = False,
                max_lengths: Tensor | None = None, min_length: int = 0, no_repeat: int = 0,
                prefix: Tensor | None = None, prompt: Tensor | None = None, pad_id: int = 0,
                reorder: Callable[[Nest, Tensor], Nest] | None = None) -> dict[str, Tensor]:
    """Finds the likeliest sequences of each row.

    A hypothesis has the score `log P / ((5 + length) / 6)^length_penalty`, its length with the end
    mark; with `coverage_penalty` that many times `sum_s log(min(sum_t attention[t, s], 1))` more.
    Finished hypotheses stay as they are, beside the `beams` that go on. A row ends when none that
    goes on can come to a better score than the finished ones have; it does not wait for others.
    One beam is greedy decoding.

    Args:
        step, cache: See `keras_attn.generation`; N is `B beams`, the hypotheses of a row side by
            side. With `coverage_penalty` or `return_attention` it returns attention, too.
        begin_ids: Integers `(B,)`, what each row begins with; not part of the result.
        beams: K, hypotheses that go on, and that are found.
        max_length: Tokens at most, with the end mark.
        end_id: Of the end mark.
        length_penalty: 0: scores are log probabilities, which favours short ones.
        coverage_penalty: 0: none.
        early_stopping: End a row when it has K finished hypotheses, better ones or not.
        source_length: S of the attention.
        source_mask: Boolean `(B, S)`, False for padding, which needs no coverage; None: no padding.
        return_attention: Whether to tell what each token attended to.
        max_lengths: Integers `(B,)`, of each row, in [1, `max_length`]; None: the latter.
        min_length, no_repeat: See `constrain`.
        prefix, prompt: Integers `(B, P)` and `(B, Q)`; see `constrain`.
        pad_id: Fills up what is after the end.
        reorder: Function of the cache and integers `(N,)`, the hypothesis that each goes on from;
            returns the cache of these. None: takes their rows of every tensor.

    Returns:
        Dictionary, best first, those that did not end by `max_length` last: `token_ids` int32
        `(B, K, max_length)`, with the end mark; `lengths` int32, `scores` and `log_probabilities`
        float32 `(B, K)`; `finished`, boolean `(B, K)`; and if asked for `attention`
        `(B, K, max_length, S)`. A score of -1e30 stands for none: there were not as many.

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
        raise ValueError("Attention needs source_length. Received: source_length=None")
    begin_ids = ops.cast(begin_ids, "int32")
    rows = begin_ids.shape[0] if begin_ids.shape[0] is not None else ops.shape(begin_ids)[0]
    limits = ops.full((rows,), max_length, "int32")
    if max_lengths is not None:
        limits = ops.clip(ops.cast(max_lengths, "int32"), 1, max_length)
    limited: dict[str, Tensor] = {
        "end_id": end_id, "min_length": min_length, "no_repeat": no_repeat}
    for name, tokens in (("prefix", prefix), ("prompt", prompt)):
        tokens = read_tokens(name, tokens, rows)
        limited[name] = None if tokens is None else ops.repeat(tokens, beams, axis=0)
    search = _Search(step, reorder, rows, beams, max_length, limits, limited, length_penalty,
                     coverage_penalty, early_stopping, source_length, source_mask,
                     return_attention, pad_id)
    return search.result(decode_while(search.goes_on, search.grow, search.start(begin_ids, cache)))


@dataclass(frozen=True)
class _Search:
    """The search of a batch; hypotheses of each row are nests of `(B, X, ...)`.

    Attributes:
        rows: B.
        limits: `(B,)`, tokens of each row.
        limited: What `constrain` takes.
        Others: Those of `beam_search`.
    """

    step: object
    reorder: object
    rows: object
    beams: int
    max_length: int
    limits: object
    limited: dict
    length_penalty: float
    coverage_penalty: float
    early_stopping: bool
    source_length: object
    source_mask: object
    return_attention: bool
    pad_id: int

    def start(self, begin_ids, cache):
        """State before the first step."""
        shape = self.rows, self.beams
        none = ops.full(shape, IMPOSSIBLE, "float32")
        begin = ops.broadcast_to(begin_ids[:, None, None], (*shape, 1))
        empty = {"ids": ops.concatenate(
            [begin, ops.full((*shape, self.max_length), self.pad_id, "int32")], axis=2)}
        if self.coverage_penalty:
            empty["coverage"] = ops.zeros((*shape, self.source_length), "float32")
        left = {"cache": cache}
        if self.return_attention:
            # It stays where it is; hypotheses take along whose it was, at each position.
            left["attention"] = ops.zeros(
                (self.rows, self.max_length, self.beams, self.source_length), "float32")
            empty["writers"] = ops.zeros((*shape, self.max_length), "int32")
        # One hypothesis to begin with: K alike would stay so.
        first = ops.where(ops.arange(self.beams)[None] == 0, 0.0, none)
        return {
            "index": ops.zeros((), "int32"), **left,
            "alive": {**empty, "log_probabilities": first},
            "finished": {**empty, "log_probabilities": none, "scores": none,
                         "lengths": ops.zeros(shape, "int32")},
            "done": ops.zeros((self.rows,), "bool"),
        }

    def goes_on(self, state):
        """Whether a row is left to work on."""
        return ops.logical_and(state["index"] < self.max_length,
                               ops.logical_not(ops.all(state["done"])))

    def grow(self, state):
        """State after another token."""
        index, done = state["index"], state["done"]
        new, left = self._continuations(state)
        # An end that is not among the K best is no finished hypothesis: so K = 1 is greedy.
        at_end = new.pop("tokens") == self.limited["end_id"]
        best = new["log_probabilities"]
        number = best.shape[1]
        ended = ops.logical_and(ops.logical_and(at_end, best > IMPOSSIBLE / 2),
                                ops.arange(number) < self.beams)
        parents = new.pop("parents")
        new_finished = {**new, "lengths": ops.broadcast_to(index + 1, (self.rows, number)),
                        "scores": ops.where(ended, self._scores(new, index + 1), IMPOSSIBLE)}
        finished = self._best(_joined(state["finished"], new_finished), "scores")
        going = {**new, "log_probabilities": ops.where(at_end, IMPOSSIBLE, best),
                 "parents": parents}
        alive = self._best(going, "log_probabilities")
        left["cache"] = (self.reorder or self._take_rows)(
            left["cache"], self._numbers(alive.pop("parents")))
        result = {"index": index + 1, **left,
                  "alive": self._unless(done, state["alive"], alive),
                  "finished": self._unless(done, state["finished"], finished)}
        over = ops.logical_or(index + 1 >= self.limits, self._is_done(result))
        return {**result, "done": ops.logical_or(done, over)}

    def _continuations(self, state):
        """The 2 K likeliest hypotheses of one more token, best first, and what the old ones left.
        """
        index, alive, beams = state["index"], state["alive"], self.beams
        flat = ops.reshape(alive["ids"], (self.rows * beams, self.max_length + 1))
        logits, cache, *attention = self.step(ops.take(flat, index, axis=1), index, state["cache"])
        logits = ops.cast(logits, "float32")
        # K of 2 K do not end here: only one continuation of each hypothesis does.
        size = min(2 * beams, logits.shape[-1])

        def continuations(logits, flat, index):
            values, tokens = likeliest(constrain(logits, flat, index, **self.limited), size)
            return values - ops.logsumexp(logits, axis=-1, keepdims=True), tokens

        values, tokens = in_few_passes(continuations, logits, flat, index)
        totals = ops.reshape(values, (self.rows, beams, size))
        totals = ops.reshape(totals + alive["log_probabilities"][..., None],
                             (self.rows, beams * size))
        best, places = ops.top_k(totals, min(2 * beams, beams * size))
        places = ops.cast(places, "int32")
        parents = places // size
        tokens = ops.take_along_axis(ops.reshape(tokens, (self.rows, beams * size)), places, axis=1)
        new = self._take(alive, parents)
        new.update(log_probabilities=best, tokens=tokens, parents=parents)
        new["ids"] = ops.slice_update(new["ids"], (0, 0, index + 1), tokens[..., None])
        left = {"cache": cache}
        if self.coverage_penalty or self.return_attention:
            newest = ops.reshape(ops.cast(attention[0], "float32"),
                                 (self.rows, beams, self.source_length))
        if self.coverage_penalty:
            new["coverage"] = new["coverage"] + self._take(newest, parents)
        if self.return_attention:
            left["attention"] = ops.slice_update(
                state["attention"], (0, index, 0, 0), newest[:, None])
            new["writers"] = ops.slice_update(new["writers"], (0, 0, index), parents[..., None])
        return new, left

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
        """Whether no hypothesis of a row can come to a better score than its finished ones."""
        worst = state["finished"]["scores"][:, -1]
        enough = worst > IMPOSSIBLE / 2
        none = state["alive"]["log_probabilities"][:, 0] <= IMPOSSIBLE / 2
        if self.early_stopping or self.beams == 1:
            return ops.logical_or(enough, none)
        # Penalties only lower a score, but a longer one may be divided by more.
        longest = self.limits if self.length_penalty > 0 else state["index"]
        hope = state["alive"]["log_probabilities"][:, 0] / (
            (5.0 + ops.cast(longest, "float32")) / 6.0) ** self.length_penalty
        return ops.logical_or(none, ops.logical_and(enough, worst >= hope))

    def result(self, state):
        """The finished hypotheses, then those that never ended."""
        alive, finished = state["alive"], state["finished"]
        lengths = ops.broadcast_to(ops.minimum(state["index"], self.limits)[:, None],
                                   (self.rows, self.beams))
        possible = alive["log_probabilities"] > IMPOSSIBLE / 2
        scores = ops.where(possible, self._scores(alive, lengths), IMPOSSIBLE)
        alive = {**alive, "scores": scores, "lengths": lengths}
        ended = ops.sum(ops.cast(finished["scores"] > IMPOSSIBLE / 2, "int32"), axis=1)[:, None]
        order = ops.arange(self.beams, dtype="int32")[None]
        places = ops.where(order < ended, order, self.beams + order - ended)
        found = self._take(_joined(finished, alive), places)
        found.pop("coverage", None)
        if self.return_attention:
            found["attention"] = self._attention(
                state["attention"], found.pop("writers"), found["lengths"])
        return {"token_ids": found.pop("ids")[:, :, 1:], **found, "finished": order < ended}

    def _attention(self, everyones, writers, lengths):
        """Of each hypothesis `(B, K, L, S)`, from what the writers of its tokens attended to."""
        positions = ops.arange(self.max_length, dtype="int32")
        rows = ops.arange(self.rows, dtype="int32")[:, None, None]
        numbers = (rows * self.max_length + positions) * self.beams + writers
        found = ops.take(ops.reshape(everyones, (-1, self.source_length)), numbers, axis=0)
        return ops.where((positions < lengths[..., None])[..., None], found, 0.0)

    def _best(self, nest, name):
        """The K hypotheses of the highest `name`, best first."""
        _, places = ops.top_k(nest[name], self.beams)
        return self._take(nest, ops.cast(places, "int32"))

    def _take(self, nest, places):
        """Of each row the hypotheses at `places` `(B, Y)`."""
        def chosen(x):
            count, rest = x.shape[1], ops.shape(x)[2:]
            flat = ops.reshape(x, (self.rows * count, *rest))
            found = ops.take(flat, self._numbers(places, count), axis=0)
            return ops.reshape(found, (self.rows, places.shape[1], *rest))
        return keras.tree.map_structure(chosen, nest)

    def _take_rows(self, nest, numbers):
        """Of nests of `(B K, ...)` these rows."""
        counts = {x.shape[0] for x in keras.tree.flatten(nest)} - {None}
        if isinstance(self.rows, int) and counts - {self.rows * self.beams}:
            raise ValueError(f"A cache of {self.rows * self.beams} hypotheses is needed, or "
                             "reorder, which knows another. "
                             f"Received: first axes of {sorted(counts)}")
        return keras.tree.map_structure(lambda x: ops.take(x, numbers, axis=0), nest)

    def _numbers(self, places, count=None):
        """Places among the `count` hypotheses of each row as numbers among all, flat."""
        first = (count or self.beams) * ops.arange(self.rows, dtype="int32")[:, None]
        return ops.reshape(places + first, (-1,))

    def _unless(self, done, before, now):
        """What rows that are done had before, and others have now."""
        return keras.tree.map_structure(
            lambda old, new: ops.where(
                ops.reshape(done, (self.rows, *[1] * (len(new.shape) - 1))), old, new),
            before, now)


def _joined(first, second):
    """All hypotheses of both."""
    return keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=1), first, second)
