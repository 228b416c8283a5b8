"""The engine of NumPy, as commands see it."""

from keras_attn.declarations import EngineFields
from keras_attn.field import Field

FIELDS = EngineFields(
    backend="tensorflow",  # its models are those of the other tests
    options={"floats": Field("float64", "Floats to compute in.", ("float32", "float64"))},
)
