"""After `import keras, keras_attn`, files of Keras can be loaded."""

import importlib
import pkgutil
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import registration
from keras_attn.layers import MultiHeadAttention
from keras_attn.models import BertClassifier, BertEncoder
from keras_attn.ops import gelu_erf
from keras_attn.registry import keras_classes
from tests.support.quick import quick


def _classes():
    return registration.CLASSES | {
        module: names
        for module, names in keras_classes().items()
        if module.startswith("keras_attn.")
    }


def test_every_registered_name_has_a_placeholder():
    packages = ["layers", "models", "ops"]
    if keras.backend.backend() == "tensorflow":  # which families and tasks import
        packages += ["families", "tasks"]
    for package in (f"keras_attn.{name}" for name in packages):
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if ".kernels" not in module.name:
                importlib.import_module(module.name)
    listed = {
        name
        for modules in (_classes(), registration.FUNCTIONS)
        for module, names in modules.items()
        for name in names
        if not module.startswith("keras_attn.training")
    }
    own = {
        name.removeprefix("keras_attn>"): entry
        for name, entry in keras.saving.get_custom_objects().items()
        if name.startswith("keras_attn>")
    }
    loaded = {
        name
        for name, entry in own.items()
        if getattr(entry, "__module__", "").startswith("keras_attn.")
        and not isinstance(entry, registration._UnloadedClass)
    }
    optimizers = "keras_attn.training.optimizers"
    assert {n for n in loaded if own[n].__module__ != optimizers} == listed


def test_placeholders_name_existing_classes():
    for modules in (_classes(), registration.FUNCTIONS):
        for module, names in modules.items():
            if module.startswith("keras_attn.training") and (
                keras.backend.backend() != "tensorflow"
            ):
                continue
            for name in names:
                entry = getattr(importlib.import_module(module), name)
                assert keras.saving.get_registered_name(entry) == f"keras_attn>{name}"


def test_a_placeholder_creates_the_class_and_does_not_replace_it(monkeypatch):
    registry = keras.saving.get_custom_objects()
    name = "keras_attn>MultiHeadAttention"
    registration._register(keras)
    assert registry[name] is MultiHeadAttention
    monkeypatch.delitem(registry, name)
    registration._register(keras)
    layer = keras.layers.deserialize(keras.layers.serialize(MultiHeadAttention(2, 4)))
    assert type(layer) is MultiHeadAttention and layer.key_dim == 4


def test_an_activation_is_serialized_twice_without_its_module(monkeypatch):
    monkeypatch.delitem(keras.saving.get_custom_objects(), "keras_attn>gelu_erf")
    registration._register(keras)
    config = keras.layers.serialize(keras.layers.Dense(3, activation=gelu_erf))
    for _ in range(2):
        layer = keras.layers.deserialize(config)
        config = keras.layers.serialize(layer)
    x = np.linspace(-2, 2, 5, dtype="float32")
    np.testing.assert_allclose(layer.activation(x), gelu_erf(x))


@pytest.mark.parametrize(
    "imports", quick(["keras, keras_attn", "keras_attn, keras"], "keras_attn, keras")
)
def test_a_process_that_imports_both_packages_loads_a_model(imports, tmp_path):
    model = BertClassifier(BertEncoder(20, 1, 8, 2, seed=0), 2)
    ids = np.arange(6).reshape(2, 3)
    expected = keras.ops.convert_to_numpy(model({"token_ids": ids})["logits"])
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "expected.npy", expected)
    program = f"""
import sys
import importlib.util
import {imports}
assert "keras_attn.models" not in sys.modules
import numpy as np
model = keras.saving.load_model({str(tmp_path / "model.keras")!r})
found = model({{"token_ids": np.arange(6).reshape(2, 3)}})["logits"]
expected = np.load({str(tmp_path / "expected.npy")!r})
np.testing.assert_allclose(keras.ops.convert_to_numpy(found), expected, 1e-5)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_importing_the_package_imports_neither_keras_nor_its_backend():
    program = """
import importlib.util, sys
import keras_attn
importlib.util.find_spec("keras")  # the hook remains after find_spec
found = {"keras", "numpy", "tensorflow", "keras_attn.layers"} & set(sys.modules)
assert not found, found
from keras_attn.registration import _AfterKeras
assert sum(isinstance(finder, _AfterKeras) for finder in sys.meta_path) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert keras_attn.__version__
