"""Greedy decoding and sampling."""

from collections.abc import Callable

import numpy as np
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, constrain, read_tokens
from keras_attn.generation.likeliest import likeliest
from keras_attn.generation.loop import decode_while, in_few_passes
from keras_attn.ops.arguments import (
    require_not_negative,
    require_probabilities,
    require_sizes,
)
from keras_attn.types import Nest, Tensor

COLDEST = 1e-6  # temperatures below it are none
_BLOCK = 128  # tokens
_ONE = 0x3F800000  # the bits of 1.0


def sample(step: Callable[[Tensor, Tensor, Nest], tuple[Nest, ...]], cache: Nest, begin_ids: Tensor,
           max_length: int, end_id: int, *, temperature: float = 1.0, top_k: int | None = None,
           top_p: float | None = None, seed: Tensor | int = 0, numbers: Tensor | None = None,
           min_length: int = 0, no_repeat: int = 0, prefix: Tensor | None = None,
           prompt: Tensor | None = None, pad_id: int = 0, return_attention: bool = False,
           source_length: Tensor | int | None = None) -> dict[str, Tensor]:
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
        top_p: Only the likeliest tokens that together have this probability, and any as likely as
            the last of them, of which logits in half precision may have some; None: all.
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
    require_sizes(max_length=max_length)
    require_sizes(optional=True, top_k=top_k)
    require_sizes(low=0, min_length=min_length, no_repeat=no_repeat)
    require_not_negative(temperature=temperature)
    require_probabilities(optional=True, top_p=top_p)
    if top_p == 0:
        raise ValueError("top_p must be above 0; for greedy decoding set temperature=0. "
                         f"Received: top_p={top_p}")
    if return_attention and source_length is None:
        raise ValueError("return_attention requires source_length. Received: source_length=None")
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

    def choose(logits, ids, index):
        """The token of each row, whether any may follow, and its log probability."""
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
        added = (ops.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
                 - ops.logsumexp(logits, axis=-1))
        return chosen, best[:, 0] > IMPOSSIBLE / 2, added

    def body(state):
        index, ids = state["index"], state["ids"]
        logits, cache, *attention = step(ops.take(ids, index, axis=1), index, state["cache"])
        chosen, possible, added = in_few_passes(
            choose, ops.cast(logits, "float32"), ids, index)
        over = ops.logical_or(state["done"], ops.logical_not(possible))
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
    """A token of each row: the first whose share, with those of the tokens before it, exceeds the
    noise.

    Args:
        logits: `(B, V)`, the largest of a row 0, or all impossible.
        noise: `(B,)` in [0, 1).
        top_k, top_p: See `sample`.
    """
    order = None
    if top_k and top_k < logits.shape[-1]:
        logits, order = likeliest(logits, top_k)
    # In blocks: sums along the whole vocabulary take long.
    size = logits.shape[-1]
    shares = ops.reshape(ops.pad(ops.exp(logits), ((0, 0), (0, -size % _BLOCK))),
                         (-1, -(-size // _BLOCK), _BLOCK))
    if top_p and top_p < 1:
        shares = _nucleus(shares, top_p)
    sums = ops.sum(shares, axis=-1)
    block, rest = _first_beyond(sums, noise * ops.sum(sums, axis=-1))
    chosen = ops.take_along_axis(shares, block[:, None, None], axis=1)[:, 0]
    places = block * _BLOCK + _first_beyond(chosen, rest)[0]
    return places if order is None else ops.take_along_axis(order, places[:, None], axis=1)[:, 0]


def _nucleus(shares, top_p):
    """Shares in [0, 1], with 0 for those where the larger ones have `top_p` of the whole together.

    Nothing is sorted: the least that stays is sought by halving the range of its bits, which are
    in the order of the numbers.

    Args:
        shares: `(B, X, Y)`.
        top_p: In (0, 1).
    """
    def total(some):
        return ops.sum(ops.sum(some, axis=1, keepdims=True), axis=2, keepdims=True)

    enough = top_p * total(shares)
    zeros = ops.cast(ops.zeros_like(enough), "int32")

    def halve(_, bounds):
        low, high = bounds  # shares above `high` are not enough
        middle = low + (high - low) // 2
        few = total(ops.where(shares > ops.view(middle, "float32"), shares, 0.0)) < enough
        return ops.where(few, low, middle + 1), ops.where(few, middle, high)

    _, least = ops.fori_loop(0, 30, halve, (zeros, zeros + _ONE))  # the range has 30 bits
    return ops.where(shares >= ops.view(least, "float32"), shares, 0.0)


def _first_beyond(shares, bound):
    """The first place that has a share, and with those before it more than a bound.

    By rounding there may be none, and sums may fall: then it is the last that has a share.

    Args:
        shares: `(B, X)`.
        bound: `(B,)`.

    Returns:
        (place, what is left of the bound there), `(B,)` each.
    """
    numbers, some = ops.arange(shares.shape[-1], dtype="int32"), shares > 0
    last = ops.max(ops.where(some, numbers, 0), axis=-1, keepdims=True)
    beyond = ops.logical_and(some, ops.cumsum(shares, axis=-1) > bound[:, None])
    places = ops.min(ops.where(beyond, numbers, last), axis=-1)
    before = ops.where(numbers < places[:, None], shares, 0.0)
    return places, bound - ops.sum(before, axis=-1)
