"""Linear-chain conditional random fields.

Tags are conditioned from left to right: with the messages that summarize all later positions,

    p(y | x) = prod_t p(y_t | y_{t-1}, x)

is a Markov chain, whose conditional probabilities are computed for all positions at once. Messages
are only known up to a constant per position, which cancels, so they stay small in long sequences.
"""

import functools
import math
from typing import NamedTuple

import keras
from keras import ops

from keras_attn.ops.masks import MASKED
from keras_attn.ops.maxima import safe_max
from keras_attn.ops.time_loop import run_time_loop
from keras_attn.ops.weights import softmax
from keras_attn.types import Tensor

# Sums of masked scores are below MASKED.
_max = functools.partial(safe_max, initial=-3e38)


class Scores(NamedTuple):
    """Scores of the tags of sequences, all float32 and `MASKED` where forbidden.

    Attributes:
        emissions: `(B, T, K)`.
        mask: Boolean `(B, T)`; masked positions are skipped.
        transitions: `(K, K)`, from each tag (row) to the next (column).
        start: `(K,)`, of the first tag.
        end: `(K,)`, of the last tag.
    """

    emissions: Tensor
    mask: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
def crf_loss(y_true: Tensor, y_pred: Tensor) -> Tensor:
    """Negative log likelihood of each tag given the tags before it, from the outputs of a `CRF`.

    The sum over a sequence is its negative log likelihood. With `model.compile(loss=crf_loss)`,
    Keras averages over the tags that are neither masked nor unknown; `sample_weight` is `(B, T)`.

    Args:
        y_true: Tags, integers `(B, T)`. Those below 0 are unknown and marginalized out.
        y_pred: Outputs of `keras_attn.layers.CRF`, `(B, T, K + K^2)`.

    Returns:
        float32 `(B, T)`; 0 where the tag is unknown or masked, about 1e30 where it is forbidden by
        the constraints of the layer or is not less than K.

    Raises:
        ValueError: If the shapes are not `(B, T)` and `(B, T, K + K^2)`.
    """
    width = y_pred.shape[-1]
    tags = (math.isqrt(4 * width + 1) - 1) // 2
    if len(y_pred.shape) != 3 or tags * (tags + 1) != width:
        raise ValueError(
            "crf_loss: y_pred must be the output of a CRF layer, of shape (B, T, K + K^2). "
            f"Received: y_pred of shape {tuple(y_pred.shape)}"
        )
    y_pred = ops.cast(y_pred, "float32")
    mask = ops.any(y_pred[..., :tags] > 0.5, axis=-1)
    # Not -inf, as in outputs that were cast to float16.
    return tag_losses(y_true, ops.maximum(y_pred[..., tags:], MASKED), mask)


def tag_losses(tags, log_probs, mask):
    """Negative log likelihood of each known tag given the known tags before it.

    Args:
        tags: `(B, T)`; those below 0 are unknown.
        log_probs: `(B, T, K^2)`, see `conditional_log_probs`.
        mask: Boolean `(B, T)`.

    Returns:
        float32 `(B, T)`, 0 where masked or unknown; these are masked for Keras, too.
    """
    sizes = zip(tags.shape, mask.shape, strict=False)
    known = [
        (size, other) for size, other in sizes if isinstance(size, int) and isinstance(other, int)
    ]
    if len(tags.shape) != 2 or any(size != other for size, other in known):
        raise ValueError(
            f"Tags must be of shape {tuple(mask.shape)}, one for each position. "
            f"Received: tags of shape {tuple(tags.shape)}"
        )
    number = math.isqrt(log_probs.shape[-1])
    tags = ops.where(mask, ops.clip(ops.cast(tags, "int32"), -1, number), -1)
    stay = ops.reshape(MASKED * (1 - ops.eye(number, dtype="float32")), (-1,))
    log_probs = ops.where(mask[..., None], log_probs, stay)
    unlike = ops.not_equal(tags[..., None], ops.arange(number, dtype="int32"))
    ruled_out = ops.where(ops.logical_and(tags[..., None] >= 0, unlike), MASKED, 0.0)

    def step(x, before):  # log p(previous tag | known tags up to it)
        changes = ops.reshape(x[:, : number**2], (-1, number, number))
        tag = ops.logsumexp(before[..., None] + changes, axis=1)
        return tag, ops.log_softmax(tag + x[:, number**2 :], axis=-1)

    uniform = ops.full((number,), -math.log(number), "float32")
    sequence = ops.concatenate([log_probs, ruled_out], axis=-1)
    found, _ = run_time_loop(step, sequence, _in_each_row(uniform, tags))
    # One more column, of what is not a tag.
    logits = ops.pad(found, [(0, 0), (0, 0), (0, 1)], constant_values=MASKED)
    return keras.losses.sparse_categorical_crossentropy(
        tags, logits, from_logits=True, ignore_class=-1
    )


def conditional_log_probs(scores):
    """`log p(tag j at t | tag i at the previous unmasked position)`, float32 `(B, T, K^2)`.

    At the first unmasked position it does not depend on i. Arbitrary where masked.
    """
    mask = scores.mask
    first = ops.logical_and(mask, ops.equal(ops.cumsum(ops.cast(mask, "int32"), axis=1), 1))
    before = ops.where(first[..., None, None], scores.start, scores.transitions)
    rest = scores.emissions + _messages_from_later(scores, ops.logsumexp)
    found = ops.log_softmax(before + rest[:, :, None], axis=-1)
    return ops.reshape(found, (*ops.shape(mask), found.shape[-1] ** 2))


def marginals(scores):
    """Probability of each tag at each position, float32 `(B, T, K)`, 0 where masked."""
    earlier = _messages(
        scores.emissions, scores.mask, ops.transpose(scores.transitions), scores.start
    )
    later = _messages_from_later(scores, ops.logsumexp)
    found = softmax(scores.emissions + earlier + later)
    return ops.where(scores.mask[..., None], found, 0.0)


def viterbi(scores):
    """The most probable tags and their score.

    Returns:
        int32 `(B, T)`, 0 where masked; and float32 `(B,)`, the sum of the emissions, transitions,
        start and end scores of these tags, 0 in a fully masked row.
    """
    number = scores.emissions.shape[-1]
    rest = scores.emissions + _messages_from_later(scores, _max)
    before = ops.concatenate([scores.transitions, scores.start[None]], axis=0)
    real = ops.cast(scores.mask, "float32")[..., None]

    def step(x, states):
        previous, total = states
        row, real = ops.take(before, previous, axis=0), x[:, -1] > 0
        tag = best_tags(row + x[:, :number])
        chosen = ops.take_along_axis(row + x[:, number:-1], tag[:, None], axis=1)[:, 0]
        states = ops.where(real, tag, previous), total + ops.where(real, chosen, 0.0)
        return ops.where(real, tag, 0)[:, None], states

    none = _in_each_row(ops.convert_to_tensor(number, "int32"), scores.mask)
    zero = _in_each_row(ops.convert_to_tensor(0.0, "float32"), scores.mask)
    sequence = ops.concatenate([rest, scores.emissions, real], axis=-1)
    tags, (last, total) = run_time_loop(step, sequence, (none, zero))
    end = ops.concatenate([scores.end, ops.zeros((1,), "float32")], axis=0)
    return tags[..., 0], total + ops.take(end, last, axis=0)


def best_tags(scores: Tensor) -> Tensor:
    """Returns the index of the largest score on the last axis, int32.

    `ops.argmax` of floats cannot be exported to ONNX.
    """
    return ops.cast(ops.top_k(scores, 1)[1][..., 0], "int32")


def _messages_from_later(scores, reduce):
    emissions, mask = (ops.flip(x, axis=1) for x in (scores.emissions, scores.mask))
    return ops.flip(_messages(emissions, mask, scores.transitions, scores.end, reduce), axis=1)


def _messages(emissions, mask, matrix, first, reduce=ops.logsumexp):
    """`m_t[j] = reduce_i(matrix[j, i] + e_{t-1}[i] + m_{t-1}[i])`, each t up to a constant.

    Args:
        emissions: e, `(B, T, K)`.
        mask: Boolean `(B, T)`.
        matrix: `(K, K)`.
        first: `m_0`, `(K,)`.
        reduce: `ops.logsumexp`, or `_max`.
    """

    def step(x, message):
        new = reduce(matrix + (x[:, :-1] + message)[:, None], axis=-1)
        new = new - ops.stop_gradient(_max(new, axis=-1, keepdims=True))
        return message, ops.where(x[:, -1:] > 0, new, message)

    sequence = ops.concatenate([emissions, ops.cast(mask, "float32")[..., None]], axis=-1)
    return run_time_loop(step, sequence, _in_each_row(first, mask))[0]


def _in_each_row(x, rows):
    return ops.broadcast_to(x, (ops.shape(rows)[0], *x.shape))
