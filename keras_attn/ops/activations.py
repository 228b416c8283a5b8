"""Activations by name; the two variants of GELU have distinct names."""

import functools

import keras
from keras import ops

from keras_attn.ops import kernels
from keras_attn.types import Tensor

_KERNELS = kernels.of_backend("tensorflow")


def _gelu(approximate):
    gelu = functools.partial(ops.gelu, approximate=approximate)
    if _KERNELS is None:
        return gelu
    return _KERNELS.graphs.compiled(_KERNELS.graphs.in_float32(gelu), gelu)


_gelu_tanh, _gelu_erf = _gelu(True), _gelu(False)


@keras.saving.register_keras_serializable(package="keras_attn")
def gelu_tanh(x: Tensor) -> Tensor:
    """GELU with the tanh approximation, as in google-research/bert and GPT-2.

    `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`
    """
    return _gelu_tanh(x)


@keras.saving.register_keras_serializable(package="keras_attn")
def gelu_erf(x: Tensor) -> Tensor:
    """Exact GELU, `x Phi(x)`: Hugging Face's `"gelu"`. Differs from tanh by up to 5e-4."""
    return _gelu_erf(x)


@keras.saving.register_keras_serializable(package="keras_attn")
def relu2(x: Tensor) -> Tensor:
    """Squared ReLU, `max(x, 0)^2` (So et al., Primer, 2021, section 4.1)."""
    return ops.square(ops.relu(x))


_NAMED = {"gelu_tanh": gelu_tanh, "gelu_erf": gelu_erf, "relu2": relu2}


def get_activation(identifier):
    """Returns the activation function of an identifier.

    Args:
        identifier: `"gelu_tanh"`, `"gelu_erf"`, `"relu2"`, the name of a Keras activation, a
            function, a config from `serialize_activation`, or None for the identity.

    Raises:
        ValueError: If the name is unknown, and for `"gelu"`, which is the exact form in Keras and
            in Hugging Face's BERT configs but the tanh form in Google's.
    """
    if identifier == "gelu":
        raise ValueError(
            "activation must be 'gelu_tanh' (google-research/bert) or 'gelu_erf' (exact). "
            "Received: activation='gelu'"
        )
    if isinstance(identifier, str) and identifier in _NAMED:
        return _NAMED[identifier]
    function = keras.activations.get(identifier)
    return gelu_erf if function is keras.activations.gelu else function


def serialize_activation(function):
    """Returns the name or config of an activation, for `get_config`."""
    for name, named in _NAMED.items():
        if function is named:
            return name
    return keras.activations.serialize(function)
