"""The weights of every attention layer of a model."""

import contextlib
import inspect

from keras import ops

ASKED = "return_attention_scores"
AFTER = "return_draws", "cache"  # arguments whose results come after the weights


def attention_maps(model, *args, **kwargs):
    """Calls a model and collects the weights of all its attention layers.

    Every layer inside whose call has an argument `return_attention_scores` is called once more
    with it; the outputs of the model stay the same. Layers that run inside a compiled loop have
    none to show, unless what is around the loop returns them.

    Args:
        model: Keras model or layer.
        *args, **kwargs: Of its call, such as the inputs.

    Returns:
        Dictionary from the name of a layer, with those of the layers around it, to its weights as
        an array: `(B, H, T, S)`, `(B, T, S)` or `(B, T)`. A layer that was called again has
        `:1`, `:2` … at the end of its name; one with several kinds of weights `/0`, `/1` ….

    Examples:

    >>> import numpy as np
    >>> from keras_attn.layers import TransformerEncoderLayer
    >>> from keras_attn.visualize import attention_maps
    >>> layer = TransformerEncoderLayer(2, 8, name="layer")
    >>> maps = attention_maps(layer, np.zeros((1, 4, 6)))
    >>> print({name: weights.shape for name, weights in maps.items()})
    {'attention': (1, 2, 4, 4)}
    >>> print(maps["attention"][0, 0, 0].round(4))
    [0.25 0.25 0.25 0.25]
    """
    if not model.built:
        model(*args, **kwargs)  # else it has no layers yet
    found = {}
    with contextlib.ExitStack() as stack:
        for name, layer in _attention_layers(model):
            stack.enter_context(_recording(layer, name, found))
        model(*args, **kwargs)
    return found


def _attention_layers(model):
    """Innermost layers that can return weights, with their names."""
    for name, layer in _walk(model, ()):
        inner = [other for _, other in _walk(layer, ()) if other is not layer]
        if _can_return(layer) and not any(_can_return(other) for other in inner):
            yield name, layer


def _walk(layer, names, seen=None):
    seen = set() if seen is None else seen
    if id(layer) in seen:  # shared: it has one name
        return
    seen.add(id(layer))
    yield "/".join(names) or layer.name, layer
    for part in layer._layers:
        yield from _walk(part, (*names, part.name), seen)


def _can_return(layer):
    return ASKED in inspect.signature(type(layer).call).parameters


@contextlib.contextmanager
def _recording(layer, name, found):
    call = layer.call

    def recorded(*args, **kwargs):
        plain = call(*args, **{**kwargs, ASKED: False})
        asked = call(*args, **{**kwargs, ASKED: True})
        after = sum(kwargs.get(other) not in (None, False) for other in AFTER)
        weights = asked[_count(plain) - after:len(asked) - after]
        for number, one in enumerate(weights):
            _keep(found, name if len(weights) == 1 else f"{name}/{number}", one)
        return asked if kwargs.get(ASKED) else plain

    layer.call = recorded
    try:
        yield
    finally:
        del layer.call


def _count(results):
    return len(results) if isinstance(results, (tuple, list)) else 1


def _keep(found, name, weights):
    try:
        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
    except (NotImplementedError, TypeError, ValueError):
        return  # a symbol of a loop that is being compiled
    again = sum(other.partition(":")[0] == name for other in found)
    found[f"{name}:{again}" if again else name] = weights
