"""Layers that are arguments of layers, and their configs."""

import keras


def part(layer):
    """The layer, made from its config if it is one; None stays None."""
    return keras.saving.deserialize_keras_object(layer) if isinstance(layer, dict) else layer


def part_config(layer):
    """What `get_config` holds of a layer, or of None.

    That it is built is left out: the layer around it builds it, so that paths stay the same.
    """
    if layer is None:
        return None
    # Keras marks as shared what it serializes a second time, and loses the mark of the first:
    # without this each layer of a file would get a part of its own.
    keras.saving.serialize_keras_object(layer)
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config
