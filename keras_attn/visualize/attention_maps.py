"""Collection of the weights of all attention layers of a model."""

import contextlib
import inspect
from typing import Any

import keras
import numpy as np
from keras import ops

SCORES_ARGUMENT = "return_attention_scores"
TRAILING_ARGUMENTS = "return_draws", "cache"  # arguments whose results follow the weights


def attention_maps(model: keras.Layer, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
    """Calls a model and collects the weights of all its attention layers.

    A layer is included if its call has an argument `return_attention_scores`. It is then called a
    second time with the same random numbers, so the outputs of the model do not change. A layer is
    also included if it has a method `attention_of(results)` that selects the weights from the
    results of its call, or a dictionary of several, such as `RecurrentDecoder`; its sublayers are
    then not included. Other layers that run inside a compiled loop are not included.

    Args:
        model: Keras model or layer.
        *args: Positional arguments of the call, such as the inputs.
        **kwargs: Keyword arguments of the call.

    Returns:
        Dictionary from the name of a layer, prefixed by the names of its parent layers, to an array
        of its weights: `(B, H, T, S)`, `(B, T, S)` or `(B, T)`. Repeated calls of a layer have the
        suffix `:1`, `:2` …; several kinds of weights have the suffix `/0`, `/1` …. Weights that are
        also returned by a parent layer have the shape that they have there.

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
        model(*args, **kwargs)  # creates its sublayers
    recorder = _Recorder()
    with contextlib.ExitStack() as stack:
        for name, layer in _walk(model, (), set()):
            stack.enter_context(recorder.recording(layer, name))
        model(*args, **kwargs)
    found: dict[str, np.ndarray] = {}
    for name, weights in recorder.maps:
        again = sum(other.partition(":")[0] == name for other in found)
        found[f"{name}:{again}" if again else name] = weights
    return found


def _walk(layer, names, seen):
    if id(layer) in seen:  # a shared layer has one name
        return
    seen.add(id(layer))
    yield "/".join(names) or layer.name, layer
    for part in layer._layers:
        yield from _walk(part, (*names, part.name), seen)


class _Recorder:
    """Records the attention weights of layer calls.

    Attributes:
        maps: List of (name, array) pairs.
    """

    def __init__(self):
        self.maps = []
        self._enabled = True

    @contextlib.contextmanager
    def recording(self, layer, name):
        """Scope in which the attention weights of a layer are recorded, if it has any."""
        if hasattr(layer, "attention_of"):
            record = self._record_results
        elif SCORES_ARGUMENT in inspect.signature(layer.call).parameters:
            record = self._record_scores
        else:
            yield
            return
        call = layer.call

        def recorded(*args, **kwargs):
            return (record if self._enabled else _call_unrecorded)(layer, call, name, args, kwargs)

        layer.call = recorded
        try:
            yield
        finally:
            del layer.call

    def _record_results(self, layer, call, name, args, kwargs):
        inner = len(self.maps)
        results = call(*args, **kwargs)
        weights = layer.attention_of(results)
        named = weights if isinstance(weights, dict) else {"": weights}
        self.maps[inner:] = [
            pair
            for part, one in named.items()
            if one is not None
            for pair in _named_arrays(f"{name}/{part}" if part else name, [one])
        ]
        return results

    def _record_scores(self, layer, call, name, args, kwargs):
        bound = inspect.signature(call).bind(*args, **kwargs)
        requested = bool(bound.arguments.get(SCORES_ARGUMENT))
        after = sum(bound.arguments.get(other) not in (None, False) for other in TRAILING_ARGUMENTS)
        bound.arguments[SCORES_ARGUMENT] = not requested
        self._enabled = False
        try:
            with keras.StatelessScope():  # the actual call then draws the same random numbers
                other = call(*bound.args, **bound.kwargs)
        finally:
            self._enabled = True
        inner = len(self.maps)
        results = call(*args, **kwargs)
        plain, more = (other, results) if requested else (results, other)
        count = len(plain) if isinstance(plain, (tuple, list)) else 1
        self._merge(inner, _named_arrays(name, more[count - after : len(more) - after]))
        return results

    def _merge(self, start, own):
        """Merges the weights of a layer with those of its sublayers, recorded from `start` on.

        Weights found in both keep the name of the sublayer and get the shape of the parent, which
        may have more batch axes.
        """
        free = list(range(start, len(self.maps)))
        for name, weights in own:
            same = next((i for i in free if self.maps[i][1].size == weights.size), None)
            if same is None:
                self.maps.append((name, weights))
            else:
                free.remove(same)
                inner_name, inner = self.maps[same]
                self.maps[same] = inner_name, inner.reshape(weights.shape)


def _call_unrecorded(layer, call, name, args, kwargs):
    return call(*args, **kwargs)


def _named_arrays(name, weights):
    """Pairs of names and arrays."""
    arrays = []
    for one in weights:
        with contextlib.suppress(NotImplementedError, TypeError, ValueError):
            # Skips symbolic tensors of a loop that is being compiled.
            arrays.append(ops.convert_to_numpy(ops.cast(one, "float32")))
    if len(arrays) == 1:
        return [(name, arrays[0])]
    return [(f"{name}/{number}", one) for number, one in enumerate(arrays)]
