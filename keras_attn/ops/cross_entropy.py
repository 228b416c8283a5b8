"""Cross-entropy with integer labels."""

import keras
from keras import ops

from keras_attn.ops import kernels
from keras_attn.ops.masks import MASKED

_KERNELS = kernels.of_backend("tensorflow")


def sparse_cross_entropy(labels, logits, label_smoothing=0.0):
    """`-log softmax(logits)[label]`, in float32.

    Its gradient, `softmax(logits) - one_hot(label)`, reuses the exponentials
    of the forward pass: on the CPU a vocabulary-sized loss takes a third less
    time than with TensorFlow's own.

    Args:
        labels: Integers `(...)`.
        logits: `(..., C)`.
        label_smoothing: Share of the label that is spread over all C classes (Szegedy et al.,
            Rethinking the Inception Architecture, 2016, section 7).

    Returns:
        float32 `(...)`.
    """
    classes = ops.shape(logits)[-1]  # of positions in a row there may be any number
    shape = ops.shape(labels)
    rows = ops.reshape(ops.cast(logits, "float32"), (-1, classes))
    labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
    return ops.reshape(_rows_cross_entropy(rows, labels, label_smoothing), shape)


def hits(labels, logits):
    """1 where no logit exceeds the label's, else 0: float32 `(...)`.

    A maximum costs a fraction of an argmax, and XLA shares it with the softmax.
    """
    labels = ops.expand_dims(ops.cast(labels, "int32"), -1)
    own = ops.squeeze(ops.take_along_axis(logits, labels, axis=-1), -1)
    return ops.cast(ops.greater_equal(own, _largest(logits)[..., 0]), "float32")


def cross_entropy_and_hits(labels, products, bias, logits):
    """`sparse_cross_entropy` and `hits` of logits.

    On TensorFlow, where shapes are known, of `products + bias` in two passes: a graph that needs
    the logits for nothing else does not write a vocabulary of them in float32.

    Args:
        labels: Integers `(R,)`.
        products: `(R, C)`, of any precision.
        bias: float32 `(C,)`.
        logits: float32 `(R, C)`, `products + bias`.

    Returns:
        Two of float32 `(R,)`.
    """
    labels = ops.cast(labels, "int32")
    if _KERNELS and _KERNELS.graphs.worth_compiling(products):
        losses, right = _KERNELS.cross_entropy(labels, products, bias)
        return losses, ops.cast(right, "float32")
    return sparse_cross_entropy(labels, logits), hits(labels, logits)


def _largest(logits):
    # Keras's max refuses a batch of no label without a first value. It makes it on the CPU with
    # PyTorch, whose own needs none.
    if keras.config.backend() == "torch":
        return ops.amax(logits, axis=-1, keepdims=True)
    return ops.max(logits, axis=-1, keepdims=True, initial=MASKED)


def _rows_cross_entropy(logits, labels, smoothing):
    @ops.custom_gradient
    def function(logits, labels):
        largest = _largest(logits)
        exponentials = ops.exp(logits - largest)
        total = ops.sum(exponentials, axis=-1, keepdims=True)
        chosen = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
        losses = ops.squeeze(ops.log(total) - (chosen - largest), axis=-1)
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
                spread = ops.cast(smoothing / logits.shape[-1], "float32")
                softmax = softmax - ops.expand_dims(upstream, -1) * spread
                own = own + upstream * (smoothing - spread)
            return ops.scatter_update(softmax, places, own), None

        return smoothed, gradient

    return function(logits, labels)


if _KERNELS:
    _rows_cross_entropy = _KERNELS.graphs.traced_once(_rows_cross_entropy)
