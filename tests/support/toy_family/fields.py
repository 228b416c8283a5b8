"""The toy family: config fields, and the formats of its checkpoints."""

from keras_attn.field import Field

NAME = "toy"
LIBRARIES = ("the tests",)
FORMATS = ("workdir", "arrays")
CONFIG_FILES = {"toy.json": "arrays"}
HUGGINGFACE_TYPE = None
KERASHUB_BACKBONE = None

MODEL = {
    "hidden_dim": Field(16, "hidden size", above=0),
}
