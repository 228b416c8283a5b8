"""Inference of a model, compiled on whichever backend there is."""

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow", "jax", "torch")


def inference_function(function, model, reduce_retracing=False):
    """Compiles a function that calls a model without training it; on PyTorch it is called as is.

    Args:
        function: Function of nests of arrays and constants, to a nest of tensors. It is compiled
            for each combination of shapes and constants.
        model: The built model that it calls, whose weights are read at each call.
        reduce_retracing: Whether TensorFlow, instead of compiling for many shapes, may leave the
            sizes open in which they differ.

    Returns:
        Function of the same arguments.
    """
    if _KERNELS is None:  # another backend, without compilation
        return function
    return _KERNELS.inference_function(function, model, reduce_retracing)
