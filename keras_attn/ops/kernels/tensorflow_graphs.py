"""What TensorFlow traces once, compiles by itself, and writes in place."""

import contextvars
import functools

import keras
import tensorflow as tf

WORTH_COMPILING = 1 << 18  # values; a compiled function takes 0.1 ms to begin


def traced_once(function):
    """The function as a graph of its own, traced once for each shape.

    TensorFlow keeps the gradient of each `tf.custom_gradient` that it traces for ever, and with
    it the graph around it: here that is this function's, and not each step's. Outside of graphs, a
    `tf.GradientTape` keeps all that the forward pass of a `tf.custom_gradient` computes.
    """
    in_graphs, outside = (tf.function(function, autograph=False) for _ in range(2))

    @functools.wraps(function)
    def called(*args):
        # Two: one that was differentiated in a graph returns every intermediate result.
        inside = outside if tf.executing_eagerly() else in_graphs
        return inside(*(tf.convert_to_tensor(x) if isinstance(x, keras.Variable) else x
                        for x in args))

    return called


def executing_eagerly():
    """Whether operations run at once, not as part of a graph."""
    return tf.executing_eagerly()


# Whether the function being traced is compiled as a whole; None: it may be.
_JIT_COMPILED = contextvars.ContextVar("whole", default=None)


def traced(function, jit, **options):
    """`tf.function(function, jit_compile=jit)`, whose parts know it: they are not compiled by
    themselves if it is; if not they may write in place, so that nobody else can compile it.

    Args:
        function: Any.
        jit: Whether XLA compiles it.
        **options: Of `tf.function`.
    """
    @functools.wraps(function)
    def called(*args, **kwargs):
        token = _JIT_COMPILED.set(bool(jit))
        try:
            return function(*args, **kwargs)
        finally:
            _JIT_COMPILED.reset(token)

    return tf.function(called, jit_compile=jit, autograph=False, **options)


def serving_function(function, specs):
    """The function as one of a SavedModel.

    Args:
        function: Of a dictionary of tensors.
        specs: `{name: keras.InputSpec}`, or lists of them.
    """
    signature = keras.tree.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, spec.dtype, spec.name), specs)
    return tf.function(function, input_signature=[signature], autograph=False)


def can_write_in_place():
    """Whether what is being traced may use `write_in_place`."""
    return _JIT_COMPILED.get() is False and not tf.executing_eagerly()


def write_in_place(whole, index, part, axis):
    """`ops.slice_update` along one axis, without a copy of the whole where nothing else reads it.

    XLA finds out by itself what need not be copied, and does not know this operation.

    Args:
        whole: A tensor.
        index: Integer scalar, the first position, brought into range.
        part: What to write there, of the same dtype, and shape but for `axis`.
        axis: Of the positions; not negative.

    Returns:
        The whole with the part in it.
    """
    for own in (slice(axis), slice(axis + 1, None)):
        part.shape[own].assert_is_compatible_with(whole.shape[own])
    shape, length = tf.shape(whole), tf.shape(part)[axis]
    # TensorFlow copies two axes twice as fast as four.
    rows, size = tf.reduce_prod(shape[:axis]), tf.reduce_prod(shape[axis + 1:])
    index = tf.clip_by_value(tf.cast(index, tf.int32), 0, shape[axis] - length)
    updated = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(whole, [rows, shape[axis] * size]), begin=[0, index * size],
        end=[rows, (index + length) * size], strides=[1, 1],
        value=tf.reshape(part, [rows, length * size]))
    return tf.ensure_shape(tf.reshape(updated, shape), whole.shape)


def worth_compiling(x):
    """Whether a function of `x` in few passes over memory pays for being compiled.

    Each shape is compiled, so of those that are unknown there may be too many.
    """
    return (not _JIT_COMPILED.get() and isinstance(x, tf.Tensor) and not tf.executing_eagerly()
            and x.shape.is_fully_defined() and x.shape.num_elements() >= WORTH_COMPILING)


def compile_if_large(function, x, *others):
    """`function(x, *others)`, compiled where that pays; the function may have several results.

    Args:
        function: Of tensors; its gradient is not made faster.
        x: Tensor, the largest.
        *others: Tensors.
    """
    if worth_compiling(x):
        function = tf.function(function, jit_compile=True, autograph=False)
    return function(x, *others)


def compiled(function, plain=None):
    """The function of tensors, in few passes over memory where that pays; its gradient likewise.

    TensorFlow's single operations each write their result. The gradient computes them again.

    Args:
        function: Of tensors, to one.
        plain: What is called where it does not pay; the function if None.
    """
    forward = tf.function(function, jit_compile=True, autograph=False)

    @tf.function(jit_compile=True, autograph=False)
    def backward(inputs, upstream):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = function(*inputs)
        return tape.gradient(y, inputs, upstream)

    @traced_once
    @tf.custom_gradient
    def both(*inputs):
        return forward(*inputs), lambda upstream: backward(inputs, upstream)

    return lambda x, *others: (both if worth_compiling(x) else plain or function)(x, *others)


def in_float32(function):
    """The function of one tensor, without the roundings of a smaller type on its way."""
    def called(x):
        small = x.dtype.size < 4
        return tf.cast(function(tf.cast(x, tf.float32)), x.dtype) if small else function(x)

    return called
