"""Divergences of predictions from those of a teacher, for knowledge distillation."""

from keras import ops

from keras_attn.types import Tensor


def softmax_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """T² times the Kullback-Leibler divergence of a softmax from that of a teacher, at a
    temperature T.

    With the factor, the gradients with respect to the logits are of about the same size at every
    temperature.

    Args:
        logits: `(…, C)`.
        teacher_logits: `(…, C)`.
        temperature: Positive number.

    Returns:
        float32 `(…)`.

    Reference:
        Hinton et al., Distilling the Knowledge in a Neural Network, 2015, section 2.
    """
    logits, teacher = _scaled(logits, temperature), _scaled(teacher_logits, temperature)
    found = ops.sum(ops.softmax(teacher) * (teacher - logits), axis=-1)
    found += ops.logsumexp(logits, axis=-1) - ops.logsumexp(teacher, axis=-1)
    return temperature**2 * found


def sigmoid_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """The same for the probabilities of independent labels.

    Args:
        logits: `(…)`.
        teacher_logits: `(…)`.
        temperature: Positive number.

    Returns:
        float32 `(…)`: the divergence of each label.
    """
    logits, teacher = _scaled(logits, temperature), _scaled(teacher_logits, temperature)
    found = ops.sigmoid(teacher) * (teacher - logits)
    found += ops.softplus(logits) - ops.softplus(teacher)
    return temperature**2 * found


def _scaled(logits, temperature):
    return ops.cast(logits, "float32") / temperature
