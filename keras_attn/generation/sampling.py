"""Greedy decoding and sampling."""

from collections.abc import Callable

import numpy as np
from keras import ops

from keras_attn.generation.constraints import IMPOSSIBLE, as_token_matrix, constrain
from keras_attn.generation.loop import compile_if_large, decode_while
from keras_attn.generation.top_k import top_k_logits
from keras_attn.ops.arguments import (
    require_not_negative,
    require_probabilities,
    require_sizes,
)
from keras_attn.types import Nest, Tensor

MIN_TEMPERATURE = 1e-6  # lower temperatures mean greedy decoding
_BLOCK = 128  # tokens
_BITS_OF_ONE = 0x3F800000  # of 1.0 as float32


def sample(
    step: Callable[[Tensor, Tensor, Nest], tuple[Nest, ...]],
    cache: Nest,
    begin_ids: Tensor,
    max_length: int,
    end_id: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: Tensor | int = 0,
    numbers: Tensor | None = None,
    min_length: int = 0,
    no_repeat: int = 0,
    prefix: Tensor | None = None,
    prompt: Tensor | None = None,
    pad_id: int = 0,
    return_attention: bool = False,
    source_length: Tensor | int | None = None,
) -> dict[str, Tensor]:
    """Decodes one sequence per row, greedily or by sampling.

    A row ends with the end-of-sequence token, or when the constraints allow no further token. It is
    padded with `pad_id`.

    Args:
        step: Step function, see `keras_attn.generation`; N is B.
        cache: Cache of the first step, see `keras_attn.generation`.
        begin_ids: Integers `(B,)`, the token before the first decoded one; not part of the result.
        max_length: Maximum number of tokens, including the end-of-sequence token.
        end_id: Id of the end-of-sequence token.
        temperature: Divisor of the logits. 0, or any value below 1e-6, decodes greedily.
        top_k: Number of most probable tokens to sample from. None: all.
        top_p: Samples from the smallest set of most probable tokens whose total probability reaches
            this value, plus tokens tied with its last one, which are common with logits in half
            precision. None: all tokens.
        seed: Seed of the random numbers, an integer or a scalar tensor. Rows do not depend on the
            batch size. The random numbers are the same on every backend.
        numbers: Integers `(B,)`, row numbers that determine the random numbers of each row;
            defaults to 0 to B - 1.
        min_length: Minimum number of tokens before the end-of-sequence token.
        no_repeat: Size of the n-grams that must not occur twice, including those in `prompt`. 0
            allows repetition.
        prefix: Integers `(B, P)`, forced first tokens; -1 allows any token.
        prompt: Integers `(B, Q)`, the tokens before the decoded ones, left-padded with -1; only
            used by `no_repeat`.
        pad_id: Id of the padding token after the end.
        return_attention: Whether to return the attention, the third output of `step`.
        source_length: Length S of the source; required with `return_attention`.

    Returns:
        Dictionary of `token_ids` int32 `(B, max_length)`, including the end-of-sequence token;
        `lengths` int32 `(B,)`; `log_probabilities` float32 `(B,)` under the model itself, without
        temperature and constraints; `finished`, boolean `(B,)`; and with `return_attention` the
        `attention` float32 `(B, max_length, S)`, 0 after the end.

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
        raise ValueError(
            f"top_p must be above 0; for greedy decoding set temperature=0. Received: top_p={top_p}"
        )
    if return_attention and source_length is None:
        raise ValueError("return_attention requires source_length. Received: source_length=None")
    begin_ids = ops.cast(begin_ids, "int32")
    count = ops.shape(begin_ids)[0]
    prefix = as_token_matrix("prefix", prefix, begin_ids.shape[0])
    prompt = as_token_matrix("prompt", prompt, begin_ids.shape[0])
    if numbers is None:
        numbers = ops.arange(count, dtype="int32")
    ids = ops.concatenate(
        [begin_ids[:, None], ops.full((count, max_length), pad_id, "int32")], axis=1
    )
    state = {
        "index": ops.zeros((), "int32"),
        "ids": ids,
        "cache": cache,
        "log_probabilities": ops.zeros((count,), "float32"),
        "lengths": ops.zeros((count,), "int32"),
        "finished": ops.zeros((count,), "bool"),
        "done": ops.zeros((count,), "bool"),
    }
    if return_attention:
        state["attention"] = ops.zeros((count, max_length, source_length), "float32")

    def unfinished(state):
        return ops.logical_and(state["index"] < max_length, ops.logical_not(ops.all(state["done"])))

    def choose(logits, ids, index):
        """Returns the next tokens, whether none was allowed, and their log probabilities."""
        constrained = constrain(
            logits,
            ids,
            index,
            end_id=end_id,
            min_length=min_length,
            no_repeat=no_repeat,
            prefix=prefix,
            prompt=prompt,
        )
        if temperature >= MIN_TEMPERATURE:
            best = ops.max(constrained, axis=-1, keepdims=True)
            scaled = ops.where(
                constrained <= IMPOSSIBLE / 2, IMPOSSIBLE, (constrained - best) / temperature
            )
            chosen = _draw(scaled, uniform_noise(numbers, index, seed), top_k, top_p)
        else:
            best, tokens = top_k_logits(constrained, 1)
            chosen = tokens[:, 0]
        added = ops.take_along_axis(logits, chosen[:, None], axis=1)[:, 0] - ops.logsumexp(
            logits, axis=-1
        )
        # False for NaN, so that the log probability shows it.
        return chosen, best[:, 0] <= IMPOSSIBLE / 2, added

    def body(state):
        index, ids = state["index"], state["ids"]
        logits, cache, *attention = step(ops.take(ids, index, axis=1), index, state["cache"])
        chosen, impossible, added = compile_if_large(
            choose, ops.cast(logits, "float32"), ids, index
        )
        over = ops.logical_or(state["done"], impossible)
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
            result["attention"] = ops.slice_update(
                state["attention"], (0, index, 0), newest[:, None]
            )
        return result

    state = decode_while(unfinished, body, state)
    names = ["lengths", "log_probabilities", "finished"] + ["attention"] * return_attention
    return {"token_ids": state["ids"][:, 1:], **{name: state[name] for name in names}}


def uniform_noise(numbers, index, seed=0):
    """Returns uniform random numbers for the tokens of one position, computed by a hash.

    Args:
        numbers: Integers `(B,)`, the row numbers.
        index: Integer scalar, the position.
        seed: Integer or scalar tensor.

    Returns:
        float32 `(B,)` in [0, 1).
    """
    if isinstance(seed, int):
        seed = np.uint32(seed & 0xFFFFFFFF).astype("int32")
    bits = _hash_bits(ops.cast(seed, "int32"))
    row = _hash_bits(bits + ops.cast(numbers, "int32"))
    # The row is mixed in twice. Otherwise rows with close hashes would repeat each other's numbers
    # a few positions later.
    bits = _hash_bits(_hash_bits(row + ops.cast(index, "int32")) + row)
    # float32 has a precision of 24 bits.
    return ops.cast(_shift_right(bits, 8), "float32") * np.float32(2.0**-24)


def _hash_bits(x):
    """Hashes 32-bit integers, with the constants of C. Wellons' lowbias32.

    The integers are signed and products wrap around, as PyTorch cannot multiply unsigned integers.
    """
    x = x + _as_int32(0x9E3779B9)  # otherwise 0 would be mapped to 0
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = ops.bitwise_xor(x, _shift_right(x, shift)) * _as_int32(factor)
    return x


def _shift_right(x, places):
    """Logical shift to the right."""
    mask = _as_int32((1 << 32 - places) - 1)
    return ops.bitwise_and(ops.right_shift(x, _as_int32(places)), mask)


def _as_int32(bits):
    return ops.convert_to_tensor(np.uint32(bits).astype("int32"))


def _draw(logits, noise, top_k, top_p):
    """Samples a token per row: the first whose cumulative probability exceeds the noise.

    Args:
        logits: `(B, V)`, shifted so that the largest of a row is 0, or all impossible.
        noise: `(B,)` in [0, 1).
        top_k: See `sample`.
        top_p: See `sample`.
    """
    order = None
    if top_k and top_k < logits.shape[-1]:
        logits, order = top_k_logits(logits, top_k)
    # Cumulative sums over the whole vocabulary are slow, so tokens are grouped into blocks.
    size = logits.shape[-1]
    probs = ops.reshape(
        ops.pad(ops.exp(logits), ((0, 0), (0, -size % _BLOCK))), (-1, -(-size // _BLOCK), _BLOCK)
    )
    if top_p and top_p < 1:
        probs = _nucleus(probs, top_p)
    sums = ops.sum(probs, axis=-1)
    block, rest = _first_exceeding(sums, noise * ops.sum(sums, axis=-1))
    chosen = ops.take_along_axis(probs, block[:, None, None], axis=1)[:, 0]
    positions = block * _BLOCK + _first_exceeding(chosen, rest)[0]
    if order is None:
        return positions
    return ops.take_along_axis(order, positions[:, None], axis=1)[:, 0]


def _nucleus(probs, top_p):
    """Sets the probabilities outside the nucleus of `top_p` to 0.

    Instead of sorting, the smallest probability in the nucleus is found by bisection of its bit
    pattern: the bit patterns of positive floats have the order of the floats.

    Args:
        probs: `(B, X, Y)`, unnormalized probabilities in [0, 1].
        top_p: In (0, 1).
    """

    def total(some):
        return ops.sum(ops.sum(some, axis=1, keepdims=True), axis=2, keepdims=True)

    enough = top_p * total(probs)
    zeros = ops.cast(ops.zeros_like(enough), "int32")

    def halve(_, bounds):
        low, high = bounds  # probabilities above `high` do not reach the total
        middle = low + (high - low) // 2
        too_few = total(ops.where(probs > ops.view(middle, "float32"), probs, 0.0)) < enough
        return ops.where(too_few, low, middle + 1), ops.where(too_few, middle, high)

    # The range has 30 bits.
    _, least = ops.fori_loop(0, 30, halve, (zeros, zeros + _BITS_OF_ONE))
    return ops.where(probs >= ops.view(least, "float32"), probs, 0.0)


def _first_exceeding(probs, bound):
    """Finds the first position where the cumulative sum exceeds a bound.

    Only positions with a positive probability count. If rounding errors leave none, the last of
    them is returned.

    Args:
        probs: `(B, X)`, unnormalized probabilities.
        bound: `(B,)`.

    Returns:
        (position, bound minus the probabilities before it), `(B,)` each.
    """
    numbers, positive = ops.arange(probs.shape[-1], dtype="int32"), probs > 0
    last = ops.max(ops.where(positive, numbers, 0), axis=-1, keepdims=True)
    beyond = ops.logical_and(positive, ops.cumsum(probs, axis=-1) > bound[:, None])
    positions = ops.min(ops.where(beyond, numbers, last), axis=-1)
    before = ops.where(numbers < positions[:, None], probs, 0.0)
    return positions, bound - ops.sum(before, axis=-1)
