"""The examples in docstrings give what they say."""

import doctest
import importlib
import pathlib
import re

import keras
import pytest

import keras_attn

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="last digits may differ")

PACKAGE = pathlib.Path(keras_attn.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py") if re.search(r"^ *>>> ", path.read_text("utf-8"), re.M))


@pytest.mark.parametrize("name", [
    # tests/ops/test_attention.py runs these, with names of its own.
    name for name in MODULES if name != "keras_attn.ops.attention"])
def test_examples(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0 and results.failed == 0


def test_examples_are_found():
    assert {"keras_attn.ops.attention", "keras_attn.layers.attention"} <= set(MODULES)
