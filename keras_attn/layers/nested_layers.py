"""Layers that are arguments of layers, and their configs."""

import weakref

import keras

# Of each part, its latest copy and the layers whose copies have it.
_COPIES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def as_layer(layer):
    """The layer, made from its config if it is one; None stays None.

    Where several layers share a part, their copies by `get_config` and `from_config` (such as
    those of `keras.models.clone_model`, which copies layer by layer) share one copy of it. The
    next copy begins where one of the layers is copied again.
    """
    if isinstance(layer, _LayerConfig) and layer == _serialized(layer.layer):
        return _copy(layer.layer, layer.owner)
    return keras.saving.deserialize_keras_object(layer) if isinstance(layer, dict) else layer


def layer_config(layer, owner):
    """What `get_config` of the layer `owner` holds of another layer, or of None.

    That it is built is left out: the layer around it builds it, so that paths stay the same.
    """
    return None if layer is None else _LayerConfig(_serialized(layer), layer, owner)


def _serialized(layer):
    # Keras marks as shared what it serializes a second time, and loses the mark of the first:
    # without this each layer of a file would get a part of its own.
    keras.saving.serialize_keras_object(layer)
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


class _LayerConfig(dict):
    """The config of a part that knows the part while it stays in this process."""

    def __init__(self, config, layer, owner):
        super().__init__(config)
        self.layer, self.owner = layer, owner

    def __reduce__(self):  # copied or pickled it is a plain dictionary
        return dict, (dict(self),)


def _copy(layer, owner):
    latest, owners = _COPIES.get(layer, (lambda: None, ()))
    copy = latest()
    if copy is None or owner in owners:
        # As Keras copies layers, and not from what is serialized: parts of the part are shared too.
        copy, owners = type(layer).from_config(layer.get_config()), weakref.WeakSet()
        _COPIES[layer] = weakref.ref(copy), owners
    owners.add(owner)
    return copy
