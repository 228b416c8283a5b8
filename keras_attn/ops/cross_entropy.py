"""Cross-entropy with integer labels."""

from typing import NamedTuple

from keras import ops

from keras_attn.ops import kernels
from keras_attn.ops.arguments import require_positive, require_probabilities, require_sizes
from keras_attn.ops.block_losses import block_count
from keras_attn.ops.maxima import safe_max
from keras_attn.types import Tensor

BLOCK_LOGITS = 1 << 25  # default block size of `linear_cross_entropy`; 128 MB in float32

_KERNELS = kernels.of_backend("tensorflow", "jax", "torch")
_GRAPHS = getattr(_KERNELS, "graphs", None)  # TensorFlow only


def sparse_cross_entropy(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy with integer labels, `-log softmax(logits)[label]`, in float32.

    Its gradient, `softmax(logits) - one_hot(label)`, reuses the exponentials of the forward pass.
    On a CPU, a loss over a large vocabulary takes a third less time than with TensorFlow's
    implementation.

    Args:
        labels: Integers `(...)`.
        logits: `(..., C)`.
        label_smoothing: Probability mass distributed uniformly over all C classes (Szegedy et al.,
            Rethinking the Inception Architecture, 2016, section 7).

    Returns:
        float32 `(...)`.
    """
    require_probabilities(label_smoothing=label_smoothing)
    classes = ops.shape(logits)[-1]  # may be unknown if the classes are positions in a row
    shape = ops.shape(labels)
    rows = ops.reshape(ops.cast(logits, "float32"), (-1, classes))
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    return ops.reshape(_rows_cross_entropy(rows, labels, label_smoothing), shape)


def hits(labels, logits):
    """1 where no logit exceeds the label's, else 0: float32 `(...)`.

    A maximum is much cheaper than an argmax, and XLA shares it with the softmax.
    """
    labels = ops.expand_dims(ops.cast(labels, "int32"), -1)
    own = ops.squeeze(ops.take_along_axis(logits, labels, axis=-1), -1)
    return ops.cast(ops.greater_equal(own, safe_max(logits, axis=-1)), "float32")


class LinearTeacher(NamedTuple):
    """Logits of a teacher for `linear_cross_entropy`: `hidden @ table^T + bias`.

    Attributes:
        hidden: `(R, F)`.
        table: Output embedding matrix `(V, F)`, in the dtype of `hidden`.
        bias: float32 `(V,)`, or None.
        weight: Weight of the divergence from the teacher, in [0, 1].
        temperature: Softmax temperature of the divergence.
    """

    hidden: Tensor
    table: Tensor
    bias: Tensor | None
    weight: float
    temperature: float


def linear_cross_entropy(
    labels: Tensor,
    hidden: Tensor,
    table: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    most: int = BLOCK_LOGITS,
    teacher: LinearTeacher | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of the logits `hidden @ table^T + bias` without materializing all of them.

    Logits are computed in blocks of rows, and again for the gradient. Memory grows with `R + V`,
    not with their product. If there is a single block, it is stored for the gradient.

    Args:
        labels: Integers `(R,)`.
        hidden: `(R, D)`.
        table: Output embedding matrix `(V, D)`, in the dtype of `hidden`.
        bias: float32 `(V,)`, or None.
        label_smoothing: See `sparse_cross_entropy`.
        most: Number of logits per block.
        teacher: `LinearTeacher` of the same rows, whose logits are computed in blocks as well; the
            losses are `(1 - weight) * cross-entropy + weight * softmax_divergence(logits, teacher's
            logits, temperature)`. They are not differentiated with respect to the teacher. None: no
            teacher.

    Returns:
        Three float32 `(R,)`: the losses; 1 where no logit exceeds the label's, else 0; and
        the cross-entropy without label smoothing and teacher. Only the first are differentiable.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.ops import linear_cross_entropy
        >>> hidden, table = np.eye(2, dtype="float32"), np.eye(3, 2, dtype="float32")
        >>> losses, correct, _ = linear_cross_entropy(np.array([0, 2]), hidden, table)
        >>> print(ops.convert_to_numpy(losses).round(3), ops.convert_to_numpy(correct))
        [0.551 1.551] [1. 0.]
    """
    require_probabilities(label_smoothing=label_smoothing)
    require_sizes(most=most)
    labels = ops.convert_to_tensor(labels, "int32")
    hidden, table = ops.convert_to_tensor(hidden), ops.convert_to_tensor(table)
    bias = None if bias is None else ops.convert_to_tensor(bias, "float32")
    arguments = labels, hidden, table, bias, label_smoothing, most, *_of_kernels(teacher)
    found = _KERNELS.linear_cross_entropy(*arguments)
    return found[0], ops.stop_gradient(found[2]), ops.stop_gradient(found[1])


def _of_kernels(teacher):
    """Returns the tensors of a teacher, and weight and temperature."""
    if teacher is None:
        return ()
    require_probabilities(weight=teacher.weight)
    require_positive(temperature=teacher.temperature)
    hidden, table = (
        ops.stop_gradient(ops.convert_to_tensor(x)) for x in (teacher.hidden, teacher.table)
    )
    bias = teacher.bias
    bias = None if bias is None else ops.stop_gradient(ops.convert_to_tensor(bias, "float32"))
    return (hidden, table, bias), (float(teacher.weight), float(teacher.temperature))


def vocabulary_losses(labels, hidden, table, bias, logits, label_smoothing=0.0, teacher=None):
    """`linear_cross_entropy`, or the same from existing logits if these are few.

    Args:
        labels, hidden, table, bias, label_smoothing, teacher: As in `linear_cross_entropy`.
        logits: float32 `(R, V)`. A graph that does not use them elsewhere does not compute them.

    Returns:
        As `linear_cross_entropy`.
    """
    rows = hidden.shape[0]  # a symbol while Keras infers the shapes of a model on JAX
    if (
        teacher is not None
        or _GRAPHS
        and not _GRAPHS.executing_eagerly()
        or rows is None
        or (isinstance(rows, int) and block_count(rows, table.shape[0], BLOCK_LOGITS) > 1)
    ):
        return linear_cross_entropy(
            labels, hidden, table, bias, label_smoothing, BLOCK_LOGITS, teacher
        )
    losses = sparse_cross_entropy(labels, logits, label_smoothing)
    plain = sparse_cross_entropy(labels, logits) if label_smoothing else losses
    return losses, hits(labels, logits), ops.stop_gradient(plain)


def _rows_cross_entropy(logits, labels, smoothing):
    @ops.custom_gradient
    def function(logits, labels):
        maximum = safe_max(logits, axis=-1, keepdims=True)
        exponentials = ops.exp(logits - maximum)
        total = ops.sum(exponentials, axis=-1, keepdims=True)
        chosen = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
        losses = ops.squeeze(ops.log(total) - (chosen - maximum), axis=-1)
        smoothed = losses
        if smoothing:
            mean = ops.squeeze(chosen, axis=-1) - ops.mean(logits, axis=-1)
            smoothed = losses + smoothing * mean

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            softmax = exponentials * (ops.expand_dims(upstream, -1) / total)
            places = ops.stack([ops.arange(ops.shape(labels)[0], dtype="int32"), labels], axis=1)
            # At the label, softmax - 1 is exp(-loss) - 1.
            own = ops.expm1(-losses) * upstream
            if smoothing:
                per_class = ops.cast(smoothing / logits.shape[-1], "float32")
                softmax = softmax - ops.expand_dims(upstream, -1) * per_class
                own = own + upstream * (smoothing - per_class)
            return ops.scatter_update(softmax, places, own), None

        return smoothed, gradient

    return function(logits, labels)


if _GRAPHS:
    _rows_cross_entropy = _GRAPHS.traced_once(_rows_cross_entropy)
