"""Shapes and dtypes of the outputs of a layer for symbolic inputs."""

from typing import Any

import keras


class _Call(keras.Operation):
    """A call of a layer, including everything `Layer.__call__` does around `Layer.call`."""

    def __init__(self, layer):
        super().__init__(name=layer.name)
        self.layer = layer

    def call(self, *args, **kwargs):
        mixed = self.layer.compute_dtype != self.layer.variable_dtype
        if mixed and any(getattr(x, "is_meta", False) for x in keras.tree.flatten((args, kwargs))):
            # Keras does not autocast weights for the meta tensors of PyTorch. After an error it
            # traces with tensors of ones.
            raise NotImplementedError
        return self.layer(*args, **kwargs)


def traced_output_spec(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    """Traces a call of the layer; use it as `compute_output_spec` of a layer class.

    By default Keras assumes that every output has the compute dtype, or traces `Layer.call` outside
    of the scope in which a layer casts its inputs and weights, which fails with mixed precision.

    Args:
        layer: A built Keras layer.
        *args: Positional arguments of the call, with `keras.KerasTensor` in place of tensors.
        **kwargs: Keyword arguments, likewise.

    Returns:
        The outputs of the call, with `keras.KerasTensor` in place of tensors.
    """
    return _Call(layer).compute_output_spec(*args, **kwargs)
