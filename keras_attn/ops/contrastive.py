"""Losses of embeddings over a global batch: in-batch negatives, CoSENT and distillation."""

from keras import ops

from keras_attn.ops.divergence import softmax_divergence
from keras_attn.ops.masks import MASKED
from keras_attn.types import Tensor


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    """Returns the cosine similarity of vectors along the last axis, 0 for vectors of zeros.

    Args:
        first, second: Tensors `(…, E)` that broadcast.
    """
    return ops.sum(unit_vectors(first) * unit_vectors(second), axis=-1)


def unit_vectors(x: Tensor) -> Tensor:
    """Divides vectors by their norm, with a finite gradient for a vector of zeros.

    Args:
        x: Tensor `(…, E)`.

    Returns:
        float32 `(…, E)`.
    """
    x = ops.cast(x, "float32")
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squared, 1e-24))


def in_batch_losses(
    embeddings: Tensor, real: Tensor, temperature: float, symmetric: bool = False
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the positive of each anchor among all positives and negatives of a batch.

    Scores are cosine similarities divided by the temperature.

    Args:
        embeddings: `(B, N, E)`: the anchor, the positive and N - 2 hard negatives of each example.
        real: `(B,)`, 0 for rows that are padding: neither anchors nor candidates.
        temperature: Positive number.
        symmetric: Whether to add the cross-entropy of the anchor of each positive among all
            anchors; the loss is then the mean of both.

    Returns:
        float32 `(B,)`: the loss of each example, and 1 where no candidate has a higher score than
        the positive.

    Reference:
        Henderson et al., Efficient Natural Language Response Suggestion, 2017, section 4; Gao et
        al., SimCSE, 2021, equation 1.
    """
    batch, count = ops.shape(embeddings)[:2]
    vectors = unit_vectors(embeddings)
    anchors = vectors[:, 0]
    # All positives first, then all negatives: (B N', E)
    others = ops.reshape(ops.transpose(vectors[:, 1:], (1, 0, 2)), (-1, vectors.shape[-1]))
    scores = ops.matmul(anchors, ops.transpose(others)) / temperature
    valid = ops.cast(real, "bool")
    candidates = ops.reshape(ops.broadcast_to(valid[None], (count - 1, batch)), (-1,))
    scores = ops.where(candidates[None], scores, MASKED)
    own = ops.eye(batch, dtype="float32")
    positive = ops.sum(scores[:, :batch] * own, axis=1)
    losses = ops.logsumexp(scores, axis=1) - positive
    if symmetric:
        to_anchors = ops.where(valid[:, None], scores[:, :batch], MASKED)
        losses = (losses + ops.logsumexp(to_anchors, axis=0) - positive) / 2
    hits = ops.greater_equal(positive, ops.max(scores, axis=1))
    keep = ops.cast(valid, "float32")
    return ops.where(valid, losses, 0.0), ops.cast(hits, "float32") * keep


def cosent_loss(similarities: Tensor, scores: Tensor, real: Tensor, temperature: float) -> Tensor:
    """Loss of the order of similarities: `log(1 + sum exp((s_i - s_j) / temperature))` over all
    pairs of examples whose scores are `y_i < y_j`.

    Args:
        similarities: Cosine similarities s, `(B,)`.
        scores: Scores y, `(B,)`.
        real: `(B,)`, 0 for rows that are padding.
        temperature: Positive number.

    Returns:
        float32 scalar.

    Reference:
        Su, CoSENT, 2022, https://kexue.fm/archives/8847
    """
    scaled = ops.cast(similarities, "float32") / temperature
    differences = scaled[:, None] - scaled[None]
    valid = ops.cast(real, "bool")
    ordered = ops.less(scores[:, None], scores[None])
    ordered = ops.logical_and(ordered, ops.logical_and(valid[:, None], valid[None]))
    differences = ops.reshape(ops.where(ordered, differences, MASKED), (-1,))
    return ops.logsumexp(ops.concatenate([ops.zeros((1,), "float32"), differences]))


def similarity_divergences(
    embeddings: Tensor,
    teacher: Tensor,
    numbers: Tensor,
    real: Tensor,
    temperature: float,
    distillation_temperature: float,
) -> Tensor:
    """Divergence of the similarities of texts from those of the embeddings of a teacher.

    The softmax of the similarities of a text to all other texts of the batch is compared with that
    of the teacher by `softmax_divergence`. The logits are cosine similarities divided by the
    temperature, as in `in_batch_losses`. The two embeddings may have different sizes.

    Args:
        embeddings: `(B, N, E)`: N texts of each example.
        teacher: `(B, N, F)`.
        numbers: `(B, N)`, integers: equal for equal texts, which are not compared.
        real: `(B,)`, 0 for rows that are padding.
        temperature: Positive number.
        distillation_temperature: Temperature of the two distributions.

    Returns:
        float32 `(B,)`: the mean over the texts of each example.

    Reference:
        Fang et al., SEED: Self-supervised Distillation for Visual Representation, 2021, section
        3.2, with the batch in place of a queue.
    """
    batch, count = ops.shape(numbers)
    valid, texts = ops.cast(real, "bool"), ops.reshape(numbers, (-1,))
    candidates = ops.reshape(ops.broadcast_to(valid[:, None], (batch, count)), (-1,))
    compared = ops.logical_and(ops.not_equal(texts[:, None], texts[None]), candidates[None])

    def logits(vectors):
        vectors = ops.reshape(vectors, (batch * count, ops.shape(vectors)[-1]))
        vectors = unit_vectors(vectors)
        products = ops.matmul(vectors, ops.transpose(vectors)) / temperature
        return ops.where(compared, products, MASKED)

    found = softmax_divergence(logits(embeddings), logits(teacher), distillation_temperature)
    found = ops.mean(ops.reshape(found, (batch, count)), axis=1)
    return ops.where(valid, found, 0.0)
