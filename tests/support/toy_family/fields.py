"""The toy family: config fields, and the formats of its checkpoints."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

_MODEL = {
    "hidden_dim": Field(16, "hidden size", above=0),
}

FIELDS = FamilyFields(
    name="toy",
    libraries=("the tests",),
    formats=("workdir", "arrays"),
    config_files={"toy.json": "arrays"},
    model=_MODEL,
)
