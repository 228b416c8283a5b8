"""Greedy decoding and sampling."""

import numpy as np
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, constrain, read_tokens
from keras_attn.generation.likeliest import likeliest
from keras_attn.generation.loop import decode_while

COLDEST = 1e-6  # temperatures below it are none


def sample(step, cache, begin_ids, max_length, end_id, *, temperature=1.0, top_k=None, top_p=None,
           seed=0, numbers=None, min_length=0, no_repeat=0, prefix=None, prompt=None, pad_id=0,
           return_attention=False, source_length=None):
    """Decodes one sequence a row, the likeliest token or a random one at a time.

    Rows end by themselves, at the end mark or where no token may follow; what comes after is
    `pad_id`.

    Args:
        step, cache: See `keras_attn.generation`; N is B.
        begin_ids: Integers `(B,)`, what each row begins with; not part of the result.
        max_length: Tokens at most, with the end mark.
        end_id: Of the end mark.
        temperature: Logits are divided by it; 0, or less than 1e-6: the likeliest token always
            (greedy).
        top_k: Only so many of the likeliest tokens may come; None: all.
        top_p: Only the likeliest tokens that together have this probability; None: all.
        seed: Of what is drawn, an integer, also a tensor; a row does not depend on how many there
            are. Alike on every backend.
        numbers: Integers `(B,)`, of the rows, by which each draws; None: 0 to B - 1.
        min_length, no_repeat, prefix, prompt: See `constrain`; N is B.
        pad_id: Fills up what is after the end.
        return_attention: Whether to return what `step` returns third.
        source_length: S; needed then.

    Returns:
        Dictionary of `token_ids` int32 `(B, max_length)`, with the end mark; `lengths` int32
        `(B,)`; `log_probabilities` float32 `(B,)`, the model's own, without temperature and
        limits; `finished`, boolean `(B,)`; and with `return_attention` `attention` float32
        `(B, max_length, S)`, 0 after the end.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        `top_p`: Holtzman et al., The Curious Case of Neural Text Degeneration, 2020.
    """
    for name, value, right, needed in (
            ("temperature", temperature, 0 <= temperature < float("inf"), "at least 0 and finite"),
            ("top_k", top_k, top_k is None or top_k >= 1, "at least 1, or None"),
            ("top_p", top_p, top_p is None or 0 < top_p <= 1, "in (0, 1], or None"),
            ("source_length", source_length, not return_attention or source_length,
             "given with return_attention"),
            ("max_length", max_length, max_length >= 1, "at least 1"),
            ("no_repeat", no_repeat, no_repeat >= 0, "at least 0")):
        if not right:
            raise ValueError(f"{name} must be {needed}. Received: {name}={value}")
    begin_ids = ops.cast(begin_ids, "int32")
    count = ops.shape(begin_ids)[0]
    prefix = read_tokens("prefix", prefix, begin_ids.shape[0])
    prompt = read_tokens("prompt", prompt, begin_ids.shape[0])
    if numbers is None:
        numbers = ops.arange(count, dtype="int32")
    ids = ops.concatenate(
        [begin_ids[:, None], ops.full((count, max_length), pad_id, "int32")], axis=1)
    state = {
        "index": ops.zeros((), "int32"), "ids": ids, "cache": cache,
        "log_probabilities": ops.zeros((count,), "float32"),
        "lengths": ops.zeros((count,), "int32"), "finished": ops.zeros((count,), "bool"),
        "done": ops.zeros((count,), "bool"),
    }
    if return_attention:
        state["attention"] = ops.zeros((count, max_length, source_length), "float32")

    def goes_on(state):
        return ops.logical_and(state["index"] < max_length,
                               ops.logical_not(ops.all(state["done"])))

    def body(state):
        index, ids = state["index"], state["ids"]
        logits, cache, *attention = step(ops.take(ids, index, axis=1), index, state["cache"])
        logits = ops.cast(logits, "float32")
        limited = constrain(logits, ids, index, end_id=end_id, min_length=min_length,
                            no_repeat=no_repeat, prefix=prefix, prompt=prompt)
        if temperature >= COLDEST:
            best = ops.max(limited, axis=-1, keepdims=True)
            warmed = ops.where(limited <= IMPOSSIBLE / 2, IMPOSSIBLE,
                               (limited - best) / temperature)
            chosen = _draw(warmed, uniform_noise(numbers, index, seed), top_k, top_p)
        else:
            best, likely = likeliest(limited, 1)
            chosen = likely[:, 0]
        over = ops.logical_or(state["done"], best[:, 0] <= IMPOSSIBLE / 2)
        added = (ops.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
                 - ops.logsumexp(logits, axis=-1))
        ended = ops.logical_and(chosen == end_id, ops.logical_not(over))
        result = {
            "index": index + 1,
            "ids": ops.slice_update(ids, (0, index + 1), ops.where(over, pad_id, chosen)[:, None]),
            "cache": cache,
            "log_probabilities": state["log_probabilities"] + ops.where(over, 0.0, added),
            "lengths": state["lengths"] + ops.cast(ops.logical_not(over), "int32"),
            "finished": ops.logical_or(state["finished"], ended),
            "done": ops.logical_or(over, ended),
        }
        if return_attention:
            newest = ops.where(over[:, None], 0.0, ops.cast(attention[0], "float32"))
            result["attention"] = ops.slice_update(state["attention"], (0, index, 0),
                                                   newest[:, None])
        return result

    state = decode_while(goes_on, body, state)
    names = ["lengths", "log_probabilities", "finished"] + ["attention"] * return_attention
    return {"token_ids": state["ids"][:, 1:], **{name: state[name] for name in names}}


def uniform_noise(numbers, index, seed=0):
    """Numbers to draw the tokens of a position by: a hash.

    Args:
        numbers: Integers `(B,)`, of the rows.
        index: Integer scalar, the counter that the loop carries.
        seed: Integer, also a tensor.

    Returns:
        float32 `(B,)` in [0, 1).
    """
    if isinstance(seed, int):
        seed = np.uint32(seed & 0xFFFFFFFF).astype("int32")
    bits = _mixed(ops.cast(seed, "int32"))
    row = _mixed(bits + ops.cast(numbers, "int32"))
    # The row twice: else those whose hashes are near would draw the same, some positions later.
    bits = _mixed(_mixed(row + ops.cast(index, "int32")) + row)
    # 24 bits, as many as float32 holds.
    return ops.cast(_shifted(bits, 8), "float32") * np.float32(2.0**-24)


def _mixed(x):
    """Each integer as another of 32 bits; the constants are those of C. Wellons' lowbias32.

    Signed, and products wrap around: PyTorch multiplies no unsigned integers.
    """
    x = x + _signed(0x9E3779B9)  # else 0 would stay 0
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = ops.bitwise_xor(x, _shifted(x, shift)) * _signed(factor)
    return x


def _shifted(x, places):
    """Bits moved to the right, and zeros before them."""
    return ops.bitwise_and(ops.right_shift(x, _signed(places)), _signed((1 << 32 - places) - 1))


def _signed(bits):
    return ops.convert_to_tensor(np.uint32(bits).astype("int32"))


def _draw(logits, noise, top_k, top_p):
    """A token of each row: the first whose probability, and those before it, exceed the noise."""
    size, order = logits.shape[-1], None
    if top_k or top_p:
        logits, order = ops.top_k(logits, min(top_k or size, size))
    shares = ops.softmax(logits, axis=-1)
    shares = ops.where(logits <= IMPOSSIBLE / 1e6, 0.0, shares)
    sums = ops.cumsum(shares, axis=-1)
    if top_p:
        # What the tokens before it have must be less; the first always stays.
        shares = ops.where(sums - shares < top_p, shares, 0.0)
        sums = ops.cumsum(shares, axis=-1)
    places = ops.sum(ops.cast(sums <= noise[:, None] * sums[:, -1:], "int32"), axis=-1)
    # By rounding the last sum may not exceed the noise: then the last token that may come.
    numbers = ops.arange(ops.shape(shares)[1], dtype="int32")
    places = ops.minimum(places, ops.max(ops.where(shares > 0, numbers, 0), axis=1))
    if order is None:
        return places
    return ops.cast(ops.take_along_axis(order, places[:, None], axis=1)[:, 0], "int32")


