"""Cross-entropy losses of a block of logits and their gradient, shared by all backends."""

from keras import ops

from keras_attn.ops.maxima import safe_max


def block_statistics(labels, products, bias, label_smoothing, teacher=None, distillation=None):
    """Computes what the losses of a block of rows and their gradient require.

    Args:
        labels: Integers `(R,)`.
        products: Logits without bias, `(R, V)`, in any precision.
        bias: float32 `(V,)`, or None.
        label_smoothing: See `sparse_cross_entropy`.
        teacher: Logits of a teacher without bias `(R, V)`, and the bias `(V,)` or None. None: no
            teacher.
        distillation: Weight and temperature of the divergence from the teacher.

    Returns:
        float32 `(5, R)`: loss; negative log-likelihood of the label; 1 where no logit exceeds that
        of the label; largest logit; logarithm of the sum of `exp(logit - largest logit)`. With a
        teacher `(8, R)`: also this logarithm at the temperature; the largest logit of the teacher;
        and the logarithm of the teacher's sum at the temperature.
    """
    logits = _logits(products, bias)
    maximum = safe_max(logits, axis=-1, keepdims=True)
    log_total = ops.log(ops.sum(ops.exp(logits - maximum), axis=-1))
    maximum = maximum[:, 0]
    own = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)[:, 0]
    losses = likelihoods = log_total - (own - maximum)
    if label_smoothing:
        losses = likelihoods + label_smoothing * (own - ops.mean(logits, axis=-1))
    found = ops.cast(own >= maximum, "float32")
    if teacher is None:
        return ops.stack([losses, likelihoods, found, maximum, log_total])
    weight, temperature = distillation
    own, own_total, _ = _log_softmax(logits, temperature)
    wanted, teacher_total, teacher_maximum = _log_softmax(_logits(*teacher), temperature)
    divergences = ops.sum(ops.exp(wanted) * (wanted - own), axis=-1)
    losses = (1 - weight) * losses + weight * temperature**2 * divergences
    of_teacher = [own_total, teacher_maximum, teacher_total]
    return ops.stack([losses, likelihoods, found, maximum, log_total, *of_teacher])


def block_gradient(
    labels,
    products,
    bias,
    statistics,
    upstream,
    label_smoothing,
    teacher=None,
    distillation=None,
):
    """Gradient of the losses with respect to the logits, float32 `(R, V)`.

    Args:
        labels, products, bias, label_smoothing, teacher, distillation: As in `block_statistics`.
        statistics: Result of `block_statistics`.
        upstream: Gradient of the losses, float32 `(R,)`.
    """
    logits, upstream = _logits(products, bias), ops.expand_dims(upstream, -1)
    likelihoods, maximum, log_total = (ops.expand_dims(statistics[row], -1) for row in (1, 3, 4))
    classes = logits.shape[-1]
    # At the label, softmax - 1 is exp(-likelihood) - 1.
    others, own = ops.exp(logits - maximum - log_total), ops.expm1(-likelihoods)
    if label_smoothing:
        others = others - label_smoothing / classes
        own = own + (label_smoothing - label_smoothing / classes)
    columns = ops.arange(classes, dtype="int32")[None]
    if teacher is None:
        return ops.where(columns == ops.expand_dims(labels, -1), own * upstream, others * upstream)
    weight, temperature = distillation
    change = (1 - weight) * ops.where(columns == ops.expand_dims(labels, -1), own, others)
    own_total, teacher_maximum, teacher_total = (
        ops.expand_dims(statistics[row], -1) for row in (5, 6, 7)
    )
    own = ops.exp((logits - maximum) / temperature - own_total)
    wanted = ops.exp((_logits(*teacher) - teacher_maximum) / temperature - teacher_total)
    return (change + weight * temperature * (own - wanted)) * upstream


def block_count(rows, classes, most):
    """Number of blocks of about `most` logits into which the rows are divided: 1 to `rows`."""
    return max(1, min(rows, -(-rows * classes // most)))


def _log_softmax(logits, temperature):
    """Logarithms of the softmax `(R, V)`, of its sum, and the largest logit `(R,)`."""
    maximum = safe_max(logits, axis=-1, keepdims=True)
    scaled = (logits - maximum) / temperature
    total = ops.log(ops.sum(ops.exp(scaled), axis=-1, keepdims=True))
    return scaled - total, total[:, 0], maximum[:, 0]


def _logits(products, bias):
    logits = ops.cast(products, "float32")
    return logits if bias is None else logits + bias
