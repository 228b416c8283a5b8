"""Beam search."""

import keras
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, constrain
from keras_attn.generation.loop import decode_while


def beam_search(step, cache, begin_ids, beams, max_length, end_id, *, length_penalty=0.6,
                coverage_penalty=0.0, early_stopping=False, source_length=None,
                source_mask=None, return_attention=False, max_lengths=None, min_length=0,
                no_repeat=0, prefix=None, pad_id=0):
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
        max_lengths: Integers `(B,)`, of each row, at most `max_length`; None: that.
        min_length, no_repeat: See `constrain`.
        prefix: Integers `(B, P)`; see `constrain`.
        pad_id: Fills up what is after the end.

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
    for name, value, least in (("beams", beams, 1), ("max_length", max_length, 1),
                               ("coverage_penalty", coverage_penalty, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}. Received: {name}={value}")
    attends = bool(coverage_penalty or return_attention)
    if attends and source_length is None:
        raise ValueError("Attention needs source_length. Received: source_length=None")
    begin_ids = ops.cast(begin_ids, "int32")
    rows = begin_ids.shape[0] if begin_ids.shape[0] is not None else ops.shape(begin_ids)[0]
    search = _Search(rows, beams)
    limits = ops.full((rows,), max_length, "int32")
    if max_lengths is not None:
        limits = ops.minimum(ops.cast(max_lengths, "int32"), limits)
    if prefix is not None:
        prefix = ops.repeat(prefix, beams, axis=0)

    def hypotheses(log_probabilities):
        begin = ops.broadcast_to(begin_ids[:, None, None], (rows, beams, 1))
        found = {
            "ids": ops.concatenate(
                [begin, ops.full((rows, beams, max_length), pad_id, "int32")], axis=2),
            "log_probabilities": log_probabilities,
        }
        if attends:
            found["attention"] = ops.zeros((rows, beams, max_length, source_length), "float32")
        return found

    def scores(found, length):
        length = ops.cast(length, "float32")
        result = found["log_probabilities"] / ((5.0 + length) / 6.0) ** length_penalty
        if coverage_penalty:
            seen = ops.minimum(ops.sum(found["attention"], axis=2), 1.0)
            missed = ops.log(ops.maximum(seen, 1e-9))
            if source_mask is not None:
                missed = ops.where(ops.cast(source_mask, "bool")[:, None], missed, 0.0)
            result = result + coverage_penalty * ops.sum(missed, axis=-1)
        return result

    none = ops.full((rows, beams), IMPOSSIBLE, "float32")
    # One hypothesis to begin with: K alike would stay so.
    first = ops.where(ops.arange(beams)[None] == 0, 0.0, none)
    state = {
        "index": ops.zeros((), "int32"), "alive": hypotheses(first), "cache": cache,
        "finished": {**hypotheses(none), "scores": none,
                     "lengths": ops.zeros((rows, beams), "int32")},
        "done": ops.zeros((rows,), "bool"),
    }

    def goes_on(state):
        return ops.logical_and(state["index"] < max_length,
                               ops.logical_not(ops.all(state["done"])))

    def body(state):
        index, alive = state["index"], state["alive"]
        flat = ops.reshape(alive["ids"], (rows * beams, max_length + 1))
        logits, cache, *attention = step(ops.take(flat, index, axis=1), index, state["cache"])
        values = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        values = constrain(values, flat, index, end_id=end_id, min_length=min_length,
                           no_repeat=no_repeat, prefix=prefix)
        size = values.shape[-1]
        totals = ops.reshape(values, (rows, beams, size)) + alive["log_probabilities"][..., None]
        # K of 2 K do not end here: only one continuation of each hypothesis does.
        number = min(2 * beams, beams * size)
        best, places = ops.top_k(ops.reshape(totals, (rows, beams * size)), number)
        parents = ops.cast(places // size, "int32")
        tokens = ops.cast(places % size, "int32")
        grown = search.take(alive, parents)
        grown["log_probabilities"] = best
        grown["ids"] = ops.slice_update(grown["ids"], (0, 0, index + 1), tokens[..., None])
        if attends:
            newest = search.take(ops.reshape(attention[0], (rows, beams, source_length)), parents)
            grown["attention"] = ops.slice_update(
                grown["attention"], (0, 0, index, 0),
                ops.cast(newest, "float32")[:, :, None])
        # An end that is not among the K best is no finished hypothesis: so K = 1 is greedy.
        ended = ops.logical_and(
            ops.logical_and(tokens == end_id, best > IMPOSSIBLE / 2), ops.arange(number) < beams)
        new = {**grown, "scores": ops.where(ended, scores(grown, index + 1), IMPOSSIBLE),
               "lengths": ops.broadcast_to(index + 1, (rows, number))}
        finished = search.best(search.joined(state["finished"], new), "scores")
        going = {**grown, "log_probabilities": ops.where(tokens == end_id, IMPOSSIBLE, best),
                 "parents": parents}
        going = search.best(going, "log_probabilities")
        cache = search.take_flat(cache, going.pop("parents"))
        done, result = state["done"], {"index": index + 1, "cache": cache}
        for name, now in (("alive", going), ("finished", finished)):
            result[name] = search.unless(done, state[name], now)
        over = ops.logical_or(index + 1 >= limits, is_done(result, index + 1))
        result["done"] = ops.logical_or(done, over)
        return result

    def is_done(state, length):
        worst = state["finished"]["scores"][:, -1]
        if early_stopping or beams == 1:
            return worst > IMPOSSIBLE / 2
        # Penalties only lower a score, but a longer one may be divided by more.
        longest = limits if length_penalty > 0 else length + 1
        hope = state["alive"]["log_probabilities"][:, 0] / (
            (5.0 + ops.cast(longest, "float32")) / 6.0) ** length_penalty
        return ops.logical_and(worst > IMPOSSIBLE / 2, worst >= hope)

    state = decode_while(goes_on, body, state)
    return search.result(state, limits, scores, return_attention)


class _Search:
    """Hypotheses of each row: nests of `(B, X, ...)`."""

    def __init__(self, rows, beams):
        self.rows, self.beams = rows, beams

    def take(self, nest, places):
        """Of each row the hypotheses at `places` `(B, Y)`."""
        def chosen(x):
            count = x.shape[1]
            rest = ops.shape(x)[2:]
            flat = ops.reshape(x, (self.rows * count, *rest))
            found = ops.take(flat, ops.reshape(self._flat(places, count), (-1,)), axis=0)
            return ops.reshape(found, (self.rows, places.shape[1], *rest))
        return keras.tree.map_structure(chosen, nest)

    def take_flat(self, nest, places):
        """As `take`, of nests of `(B K, ...)`."""
        places = ops.reshape(self._flat(places, self.beams), (-1,))
        return keras.tree.map_structure(lambda x: ops.take(x, places, axis=0), nest)

    def _flat(self, places, count):
        return places + count * ops.arange(self.rows, dtype="int32")[:, None]

    def joined(self, first, second):
        """All hypotheses of both."""
        return keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=1), first,
                                        second)

    def best(self, nest, name):
        """The K hypotheses of the highest `name`, best first."""
        _, places = ops.top_k(nest[name], self.beams)
        return self.take(nest, ops.cast(places, "int32"))

    def unless(self, done, before, now):
        """What rows that are done had before, and others have now."""
        return keras.tree.map_structure(
            lambda old, new: ops.where(
                ops.reshape(done, (self.rows, *[1] * (len(new.shape) - 1))), old, new),
            before, now)

    def result(self, state, limits, scores, return_attention):
        """The finished hypotheses, then those that never ended."""
        alive, finished = state["alive"], state["finished"]
        lengths = ops.broadcast_to(ops.minimum(state["index"], limits)[:, None],
                                   (self.rows, self.beams))
        possible = alive["log_probabilities"] > IMPOSSIBLE / 2
        alive = {**alive, "scores": ops.where(possible, scores(alive, lengths), IMPOSSIBLE),
                 "lengths": lengths}
        ended = ops.sum(ops.cast(finished["scores"] > IMPOSSIBLE / 2, "int32"), axis=1)[:, None]
        order = ops.arange(self.beams, dtype="int32")[None]
        places = ops.where(order < ended, order, self.beams + order - ended)
        found = self.take(self.joined(finished, alive), places)
        named = {"token_ids": found["ids"][:, :, 1:], "lengths": found["lengths"],
                 "scores": found["scores"], "log_probabilities": found["log_probabilities"],
                 "finished": order < ended}
        if return_attention:
            named["attention"] = found["attention"]
        return named
