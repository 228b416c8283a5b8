"""Shapes and dtypes of what a layer returns for symbolic inputs."""

from typing import Any

import keras


class _Call(keras.Operation):
    """A call of a layer, with all that `Layer.__call__` does around `Layer.call`."""

    def __init__(self, layer):
        super().__init__(name=layer.name)
        self.layer = layer

    def call(self, *args, **kwargs):
        return self.layer(*args, **kwargs)


def traced_output_spec(layer: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    """Traces a call of the layer; to be used as its `compute_output_spec`.

    Keras assumes that every output has the compute dtype, or traces `Layer.call` alone, outside
    of the scope in which a layer casts its inputs and weights, so that mixed precision fails.

    Args:
        layer: A built Keras layer.
        *args, **kwargs: Of the call; `keras.KerasTensor` in place of tensors.

    Returns:
        The outputs of the call, `keras.KerasTensor` in place of tensors.
    """
    return _Call(layer).compute_output_spec(*args, **kwargs)
