"""Layers that are arguments of other layers, and their configs."""

import weakref

import keras

# For each shared layer: its latest copy, and the owners whose copies use it.
_COPIES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def as_layer(layer):
    """Creates the layer if the argument is a config; otherwise returns the argument.

    If several layers share a layer, their copies by `get_config` and `from_config` (such as those
    of `keras.models.clone_model`, which copies layer by layer) share one copy of it. A new copy is
    made as soon as one of the owners is copied again.
    """
    if isinstance(layer, _LayerConfig) and layer == _serialized(layer.layer):
        return _copy(layer.layer, layer.owner)
    return keras.saving.deserialize_keras_object(layer) if isinstance(layer, dict) else layer


def layer_config(layer, owner):
    """The config of a layer, or None, for `get_config` of the layer `owner` that contains it.

    The build config is left out: the owner builds the layer, so that paths stay the same.
    """
    return None if layer is None else _LayerConfig(_serialized(layer), layer, owner)


def _serialized(layer):
    # Keras only marks an object as shared when it serializes it a second time. Without the first
    # call, each layer of a file would get a separate copy.
    keras.saving.serialize_keras_object(layer)
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


class _LayerConfig(dict):
    """The config of a layer, with a reference to the layer while it stays in this process."""

    def __init__(self, config, layer, owner):
        super().__init__(config)
        self.layer, self.owner = layer, owner

    def __reduce__(self):  # copies and pickles are plain dictionaries
        return dict, (dict(self),)


def _copy(layer, owner):
    latest, owners = _COPIES.get(layer, (lambda: None, ()))
    copy = latest()
    if copy is None or owner in owners:
        # Copied as Keras copies layers, not from the serialized config, so that layers nested in
        # it are shared too.
        copy, owners = type(layer).from_config(layer.get_config()), weakref.WeakSet()
        _COPIES[layer] = weakref.ref(copy), owners
    owners.add(owner)
    return copy
