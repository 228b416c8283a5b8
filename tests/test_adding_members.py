"""The code of the pages about adding a family, a task and an engine."""

import importlib
import pathlib
import re
import sys
import types

import numpy as np
import pytest

from keras_attn import declarations, defaults
from keras_attn.registry import ENGINES, FAMILIES, TASKS, Registry
from tests.support.toy_family.family import ToyEncoder
from tests.support.toy_task.task import Counter

DOCS = pathlib.Path(__file__).parents[1] / "docs"
HEADS = {"masked_lm": {"next_sentence": False}, "classification": {"num_classes": 3}}
# The module `model` of the family of the page.
MODEL = """
from tests.support.toy_family.family import ToyClassifier as RoFormerClassifier
from tests.support.toy_family.family import ToyEncoder


class RoFormerEncoder(ToyEncoder):
    def __init__(
        self, vocabulary_size, num_layers, hidden_dim, num_heads, embedding_dim, dropout, **kwargs
    ):
        super().__init__(vocabulary_size, hidden_dim, **kwargs)
"""


def _block(page, text):
    """Returns the Python block of a page that contains a text."""
    content = (DOCS / page).read_text(encoding="utf-8")
    (found,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", content, re.M | re.S)
        if text in block
    )
    return found


@pytest.fixture
def add_member(tmp_path, monkeypatch):
    """Function that registers a package with the given modules until the end of the test."""
    known = set(sys.modules)

    def add(registry, package, **modules):
        parent, name = package.rsplit(".", 1)
        parent = importlib.import_module(parent)
        (tmp_path / name).mkdir()
        for module, code in {"__init__": "", **modules}.items():
            (tmp_path / name / f"{module}.py").write_text(code, encoding="utf-8")
        monkeypatch.setattr(parent, "__path__", [str(tmp_path), *parent.__path__])
        monkeypatch.setattr(registry, "_packages", registry._packages)
        registry.register(name, package)

    yield add
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.mark.parametrize(
    "page, registry, member",
    [
        ("adding_a_family.md", FAMILIES, "roformer"),
        ("adding_a_task.md", TASKS, "multiple_choice"),
        ("adding_an_engine.md", ENGINES, "torch"),
    ],
)
def test_the_line_of_the_registry_adds_a_member(page, registry, member):
    code = _block(page, "Registry(")
    names = {"Registry": Registry, **vars(declarations)}
    exec(code.replace("        ...\n", ""), names)
    (name,) = (name for name, value in names.items() if isinstance(value, Registry))
    made, package = names[name], registry.package(next(iter(registry)))
    assert (made.what, made._declares) == (registry.what, registry._declares)
    assert made.registered == (member,)
    assert made._packages[member] == f"{package.rsplit('.', 1)[0]}.{member}"
    assert getattr(importlib.import_module("keras_attn.registry"), name) is registry


def test_the_family_has_a_config_and_builds_its_models(add_member):
    page = "adding_a_family.md"
    add_member(
        FAMILIES,
        "keras_attn.families.roformer",
        fields=_block(page, "FamilyFields("),
        family=_block(page, "(Family)"),
        model=MODEL,
    )
    family, config = FAMILIES["roformer"], defaults.default_config("masked_lm", "roformer")
    run = types.SimpleNamespace(
        task=TASKS["masked_lm"], config=config, resumed=False, pretrained=None
    )
    for size, shape in family.sizes.items():
        config.model.size = size
        architecture = family.choose_architecture(run)
        assert architecture == {**shape, "dropout": 0.0}
        for task in family.task_models:
            model = family.build(task, {"vocabulary_size": 50, **architecture}, HEADS.get(task, {}))
            model.build()
            assert model.count_params() > 50 * shape["hidden_dim"]
    for module, names in FAMILIES.fields("roformer").keras_classes.items():
        assert all(hasattr(importlib.import_module(module), name) for name in names)


def test_the_task_has_a_config_by_its_name_and_from_that_of_another_task(add_member):
    name = "multiple_choice"
    add_member(TASKS, f"keras_attn.tasks.{name}", fields=_block("adding_a_task.md", "TaskFields("))
    own, selected = defaults.default_config(name), defaults.default_config("classification")
    defaults.select_task(selected, name)
    for config in own, selected:
        assert config.data.answers == 4
    assert dict(defaults.fields(selected)).keys() == dict(defaults.fields(own)).keys() | {
        "data.task"
    }


def test_the_loss_of_the_discriminator_is_scaled_and_its_metric_is_not():
    methods = {}
    exec(_block("adding_a_task.md", "def loss_errors"), methods)

    class Discriminator(Counter):
        metric_names = ["mlm_loss", "rtd_loss", "rtd_cross_entropy"]
        loss_errors, metric_sums = methods["loss_errors"], methods["metric_sums"]

        def loss_weights(self, batch):
            return {"mlm": 4.0, "rtd": 8.0}

        def _mlm_error(self, outputs, batch):
            return 6.0

        def _rtd_error(self, outputs, batch):
            return 2.0

    ids = np.ones((2, 3), "int32")
    model = Discriminator(ToyEncoder(9, 4, seed=0))
    model.compile()
    found = model.evaluate(
        {"token_ids": ids, "padding_mask": ids}, batch_size=2, verbose=0, return_dict=True
    )
    assert found["loss"] == pytest.approx(6 / 4 + 50 * 2 / 8)
    assert found["rtd_loss"] == pytest.approx(50 * 2 / 8)
    assert found["rtd_cross_entropy"] == pytest.approx(2 / 8)
