"""The examples in docstrings have the documented results."""

import doctest
import importlib
import pathlib
import re

import keras
import pytest

import keras_attn
from keras_attn import layers, models

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="last digits may differ"
)

PACKAGE = pathlib.Path(keras_attn.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text("utf-8"), re.M)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0 and results.failed == 0


def test_examples_are_found():
    assert {"keras_attn.ops.attention", "keras_attn.layers.attention"} <= set(MODULES)


@pytest.mark.parametrize("owner", [layers, models], ids=["layers", "models"])
def test_every_class_has_an_example_with_a_numeric_result(owner):
    for name in owner.__all__:
        public = getattr(owner, name)
        examples = doctest.DocTestParser().get_examples(public.__doc__)
        assert public.__module__ in MODULES
        assert any(re.search(rf"\b{name}[.(]", example.source) for example in examples), name
        # A shape, `(2, 3)`, does not show the values.
        assert any(
            re.search(r"\d", re.sub(r"\([^()]*\)", "", example.want)) for example in examples
        ), name
