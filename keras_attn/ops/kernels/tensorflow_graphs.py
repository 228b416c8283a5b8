"""Functions that TensorFlow traces once or compiles separately, and in-place writes."""

import contextvars
import functools

import keras
import tensorflow as tf

WORTH_COMPILING = 1 << 18  # values; launching a compiled function takes 0.1 ms
WIDE = 256  # values per row; narrower tensors of unknown length are rarely worth compiling


def traced_once(function):
    """Wraps a function in a separate graph, traced once per shape.

    TensorFlow never frees the gradient of a `tf.custom_gradient` that it traces, nor the graph
    around it. With this wrapper that is the graph of the function, not one of each step. Outside of
    graphs, a `tf.GradientTape` stores all results of the forward pass of a `tf.custom_gradient`.
    """
    in_graphs, outside = (tf.function(function, autograph=False) for _ in range(2))

    @functools.wraps(function)
    def called(*args):
        # Two functions: one differentiated in a graph returns every intermediate result.
        inside = outside if tf.executing_eagerly() else in_graphs
        return inside(
            *(tf.convert_to_tensor(x) if isinstance(x, keras.Variable) else x for x in args)
        )

    return called


def executing_eagerly():
    """Whether operations are executed eagerly rather than added to a graph."""
    return tf.executing_eagerly()


# Whether the function being traced is compiled as a whole by XLA; None: unknown.
_JIT_COMPILED = contextvars.ContextVar("jit_compiled", default=None)


def traced(function, jit, **options):
    """`tf.function(function, jit_compile=jit)`, with `jit` known to the operations inside.

    If it is compiled, they are not compiled separately. If not, they may write in place, so the
    function cannot be compiled by a caller.

    Args:
        function: Any function.
        jit: Whether XLA compiles it.
        **options: Further arguments of `tf.function`.
    """

    @functools.wraps(function)
    def called(*args, **kwargs):
        token = _JIT_COMPILED.set(bool(jit))
        try:
            return function(*args, **kwargs)
        finally:
            _JIT_COMPILED.reset(token)

    return tf.function(called, jit_compile=jit, autograph=False, **options)


def inference_function(function, model, reduce_retracing=False):
    """As `keras_attn.ops.inference.inference_function`; the function holds the variables."""
    return traced(function, jit=False, reduce_retracing=reduce_retracing)


def serving_function(function, specs):
    """Wraps a function for a SavedModel signature.

    Args:
        function: Function of a dictionary of tensors.
        specs: `{name: keras.InputSpec}`, or lists of them.
    """
    signature = keras.tree.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, spec.dtype, spec.name), specs
    )
    return tf.function(function, input_signature=[signature], autograph=False)


def in_graph_without_xla():
    """Whether the function being traced is a graph that XLA does not compile.

    Its shapes may depend on values, and it may use `write_in_place`.
    """
    return _JIT_COMPILED.get() is False and not tf.executing_eagerly()


def write_in_place(whole, index, part, axis):
    """`ops.slice_update` along one axis, without a copy if nothing else reads the tensor.

    XLA avoids unnecessary copies itself and does not support this operation.

    Args:
        whole: A tensor.
        index: Integer scalar, the first position; clipped to the valid range.
        part: The values to write, with the dtype of `whole` and its shape except along `axis`.
        axis: The position axis; not negative.

    Returns:
        `whole` with `part` written to it.
    """
    for own in (slice(axis), slice(axis + 1, None)):
        part.shape[own].assert_is_compatible_with(whole.shape[own])
    shape, length = tf.shape(whole), tf.shape(part)[axis]
    # TensorFlow copies two axes twice as fast as four.
    rows, size = tf.reduce_prod(shape[:axis]), tf.reduce_prod(shape[axis + 1 :])
    index = tf.clip_by_value(tf.cast(index, tf.int32), 0, shape[axis] - length)
    updated = tf.raw_ops.TensorStridedSliceUpdate(
        input=tf.reshape(whole, [rows, shape[axis] * size]),
        begin=[0, index * size],
        end=[rows, (index + length) * size],
        strides=[1, 1],
        value=tf.reshape(part, [rows, length * size]),
    )
    return tf.ensure_shape(tf.reshape(updated, shape), whole.shape)


def worth_compiling(x):
    """Whether separate compilation of a function that makes few passes over `x` pays off.

    Each shape is compiled, so unknown shapes, of which there may be many, are not.
    """
    return (
        not _JIT_COMPILED.get()
        and isinstance(x, tf.Tensor)
        and not tf.executing_eagerly()
        and x.shape.is_fully_defined()
        and x.shape.num_elements() >= WORTH_COMPILING
    )


def compile_if_large(function, x, *others):
    """`function(x, *others)`, compiled if that pays off; the function may return several results.

    Args:
        function: Function of tensors; its gradient is not accelerated.
        x: The largest tensor.
        *others: Tensors.
    """
    if worth_compiling(x):
        function = tf.function(function, jit_compile=True, autograph=False)
    return function(x, *others)


def compiled(function, plain=None):
    """Compiles a function and its gradient to few passes over memory, where that pays off.

    Without XLA, each TensorFlow operation writes its result to memory. The gradient recomputes the
    results. Wide rows of an unknown number are computed in blocks of one size, because each shape
    would be compiled.

    Args:
        function: Function of a tensor and others. It returns one tensor of the shape and dtype of
            the first, each row (along the last axis) from that row of the first and the others.
        plain: Called where compilation does not pay off; defaults to `function`.
    """
    plain = plain or function
    backward = functools.partial(_gradients, function)
    forward, backward = (
        tf.function(f, jit_compile=True, autograph=False) for f in (function, backward)
    )

    @traced_once
    @tf.custom_gradient
    def of_known_shape(*inputs):
        return forward(*inputs), lambda upstream: backward(upstream, *inputs)

    @traced_once
    @tf.custom_gradient
    def of_unknown_shape(x, *others):
        large = tf.size(x) >= 4 * WORTH_COMPILING  # to make up for the copies
        y = tf.cond(
            large,
            lambda: _in_blocks(lambda x: [forward(x, *others)], [x.dtype], x)[0],
            lambda: plain(x, *others),
        )

        def gradient(upstream):
            dtypes = [one.dtype for one in (x, *others)]
            return tf.cond(
                large,
                lambda: _in_blocks(lambda *rows: backward(*rows, *others), dtypes, upstream, x),
                lambda: list(_gradients(plain, upstream, x, *others)),
            )

        return tf.ensure_shape(y, x.shape), gradient

    def called(x, *others):
        if worth_compiling(x):
            return of_known_shape(x, *others)
        return (of_unknown_shape if _wide_rows(x) else plain)(x, *others)

    return called


def _wide_rows(x):
    """Whether `x` has wide rows of an unknown number, in a graph that XLA does not compile."""
    if not (in_graph_without_xla() and isinstance(x, tf.Tensor) and x.shape.rank):
        return False
    return (x.shape[-1] or 0) >= WIDE and not x.shape.is_fully_defined()


def _gradients(function, upstream, *inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
    return tape.gradient(y, inputs, upstream)


def _in_blocks(function, dtypes, *tensors):
    """Calls a function of rows with blocks of about `WORTH_COMPILING` elements.

    Args:
        function: Function of blocks of the tensors. It returns a tensor of the shape of a block,
            and others.
        dtypes: List of the dtypes of these.
        *tensors: Tensors of the same shape.

    Returns:
        List of a tensor of the shape of `tensors`, and the sums of the others over blocks.
    """
    shape, width = tf.shape(tensors[0]), tensors[0].shape[-1]
    rows = tf.reduce_prod(shape[:-1])
    size = max(1, WORTH_COMPILING // width)
    blocks = [
        tf.reshape(
            tf.pad(tf.reshape(x, [rows, width]), [[0, -rows % size], [0, 0]]), [-1, size, width]
        )
        for x in tensors
    ]
    found = tf.map_fn(lambda block: list(function(*block)), blocks, fn_output_signature=dtypes)
    first = tf.reshape(tf.reshape(found[0], [-1, width])[:rows], shape)
    return [first, *(tf.reduce_sum(x, axis=0) for x in found[1:])]


def in_float32(function):
    """Wraps a function of one tensor to compute intermediate results in float32."""

    def called(x):
        small = x.dtype.size < 4
        return tf.cast(function(tf.cast(x, tf.float32)), x.dtype) if small else function(x)

    return called
