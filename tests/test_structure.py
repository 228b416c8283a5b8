"""Families and tasks are only used through their contracts."""

import dataclasses
import importlib.metadata
import inspect
import pathlib
import re
import sys
import types

import keras
import pytest

import keras_attn
from keras_attn import registration
from keras_attn.checkpoints.huggingface_config import model_of_task, models_of
from keras_attn.declarations import FamilyFields, TaskFields
from keras_attn.errors import UserError
from keras_attn.families.bert import fields as bert_fields
from keras_attn.families.contract import Family
from keras_attn.families.gpt2 import fields as gpt2_fields
from keras_attn.registry import (
    ENGINES,
    FAMILIES,
    TASKS,
    Registry,
    family_and_task,
    keras_classes,
    kind_of,
    task_of_config,
)
from keras_attn.tasks.contract import Task
from keras_attn.training.engines.contract import Engine

PACKAGE = pathlib.Path(keras_attn.__file__).parent
COMPARISON = re.compile(
    r"\bis (BERT|GPT_2|XL_NET)\b|\bOTHERS\b|\bkind (==|!=) "
    r"|(if|and|or|while) [a-z_.]*kind in "
)


def _sources(folder=PACKAGE):
    return {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}


def test_no_family_or_kind_is_compared_outside_the_members():
    members = [PACKAGE / "families", PACKAGE / "tasks"]
    found = [
        f"{path}:{number}"
        for path, text in _sources().items()
        if not any(folder in path.parents for folder in members)
        for number, line in enumerate(text.splitlines(), 1)
        if COMPARISON.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "registry", [FAMILIES, TASKS, ENGINES], ids=["families", "tasks", "engines"]
)
def test_no_member_imports_another(registry):
    for name in registry:
        package = registry.package(name)
        if not package.startswith("keras_attn."):
            continue  # a member of the tests
        others = [registry.package(other) for other in registry if other != name]
        for path, text in _sources(PACKAGE.parent / package.replace(".", "/")).items():
            found = [other for other in others if re.search(rf"{re.escape(other)}\b", text)]
            assert found == [], path


def test_test_modules_are_independent():
    tests = sorted(pathlib.Path(__file__).parent.rglob("test_*.py"))
    names = [path.name for path in tests]
    assert sorted(set(names)) == sorted(names), "pytest needs unique names"
    importing = [
        path
        for path in tests
        if re.search(r"^ *(from|import) tests\.(\w+\.)*test_", path.read_text(), re.MULTILINE)
    ]
    assert importing == [], "move what is shared to tests/support"


def test_tests_import_no_flag_twice():
    tests = sorted(pathlib.Path(__file__).parent.rglob("test_*.py"))
    modules = {
        found.replace(".", "/")
        for path in tests
        for found in re.findall(
            r"^ *from (benchmarks[\w.]*) import", path.read_text(), re.MULTILINE
        )
    }
    # `from folder import module`, too
    paths = [path for m in modules for path in PACKAGE.parent.glob(f"{m}.py")]
    paths += [path for m in modules for path in PACKAGE.parent.glob(f"{m}/*.py")]
    assert paths
    names = [
        name
        for path in set(paths)
        for name in re.findall(r"^flags\.DEFINE_\w+\(\s*\"(\w+)", path.read_text(), re.MULTILINE)
    ]
    assert sorted(set(names)) == sorted(names), "define flags under `if __name__ == '__main__'`"


def test_every_member_declares_what_its_contract_names():
    for name in FAMILIES:
        fields, family = FAMILIES.fields(name), FAMILIES[name]
        assert isinstance(family, Family) and fields.name == family.name == name
        assert "workdir" in fields.formats
        for format in set(fields.formats) - {"workdir"}:
            assert callable(family.format(format).read) and callable(family.format(format).write)
    for name in TASKS:
        fields, task = TASKS.fields(name), TASKS[name]
        assert isinstance(task, Task) and task.name == name
        assert fields.options.keys() <= {"evaluate", "export", "predict"}
        assert fields.data in {"data", *fields.options.get("evaluate", {})}
        assert {"data", "train", "eval"} <= fields.config(FAMILIES.fields(fields.family)).keys()
    for name in ENGINES:
        fields = ENGINES.fields(name)
        if keras.backend.backend() == fields.backend:  # others may not be installed
            assert issubclass(ENGINES[name], Engine)
            assert inspect.signature(ENGINES[name]).parameters.keys() == fields.options.keys()


def test_kinds_of_version_0_1_keep_their_names():
    kinds = {
        "pretraining": ("bert", "masked_lm"),
        "encoder": ("bert", "backbone"),
        "finetuning": ("bert", "classification"),
        "reading": ("bert", "span_qa"),
        "gpt2_finetuning": ("gpt2", "classification"),
        "xlnet_finetuning": ("xlnet", "classification"),
        "language_modeling": ("gpt2", "causal_lm"),
        "permutation_modeling": ("xlnet", "permutation_lm"),
        "translation": ("transformer", "translation"),
    }
    for kind, pair in kinds.items():
        assert kind_of(*pair) == kind and family_and_task(kind) == pair
    assert family_and_task("unknown") is None


@pytest.mark.parametrize(
    ("named", "command", "task"),
    [
        (None, "finetune", "classification"),
        ("sst2", "finetune", "classification"),
        ("regression", "finetune", "classification"),
        ("reading_comprehension", "finetune", "span_qa"),
        ("span_qa", "finetune", "span_qa"),
        ("translation", "finetune", "translation"),
        ("language_modeling", "finetune", "classification"),
        ("language_modeling", "pretrain", "causal_lm"),
        ("classification", "pretrain", "masked_lm"),
        ("permutation_modeling", "pretrain", "permutation_lm"),
        (None, "pretrain", "masked_lm"),
    ],
)
def test_a_config_names_a_task_of_its_command(named, command, task):
    default = "classification" if command == "finetune" else "masked_lm"
    assert task_of_config({"data": {"task": named}}, default, command) == task


def test_a_name_is_registered_once():
    registry = Registry("family", {"one": "keras_attn.families.bert"}, FamilyFields)
    registry.register("one", "keras_attn.families.bert")
    with pytest.raises(
        UserError, match="family 'one': keras_attn.families.bert and keras_attn.families.gpt2"
    ):
        registry.register("one", "keras_attn.families.gpt2")
    with pytest.raises(UserError, match="Unknown family 'on'. Choose one of one. Did you mean one"):
        registry.package("on")


def test_a_task_without_its_declaration_is_not_registered(monkeypatch):
    registry = Registry("task", {}, TaskFields)
    for content in ({}, {"FIELDS": {"command": "finetune"}}):
        module = types.ModuleType("incomplete.fields")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, "incomplete.fields", module)
        with pytest.raises(ValueError, match="incomplete.fields must have FIELDS, an inst"):
            registry.register("new", "incomplete")
    with pytest.raises(TypeError, match="'command' and 'config'"):
        TaskFields(family="bert")
    assert "new" not in registry


def _install(monkeypatch, *entries):
    """Installs entry points; returns the list of the groups that are searched from then on."""
    groups = []
    entries = [types.SimpleNamespace(name=name, value=value) for name, value in entries]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: groups.append(group) or entries
    )
    return groups


def test_an_installed_package_adds_members_by_entry_points(monkeypatch):
    groups = _install(monkeypatch, ("two", "keras_attn.families.gpt2"))
    registry = Registry("family", {"one": "package.one"}, FamilyFields)
    assert registry.package("one") == "package.one" and not groups  # without a search
    assert registry.package("two") == "keras_attn.families.gpt2"
    assert list(registry) == ["one", "two"] and groups == ["keras_attn.family"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("one", "keras_attn.families.gpt2"), "family 'one': package.one and keras_attn.families."),
        (("two", "no_such.package"), "Cannot use the family 'two' .*no_such.package. Update or"),
        (("two", "keras_attn.tasks.span_qa"), "must have FIELDS, an instance of FamilyFields"),
    ],
)
def test_a_broken_installed_package_is_an_error_at_every_use(monkeypatch, entry, message):
    _install(monkeypatch, ("other", "keras_attn.families.bert"), entry)
    registry = Registry("family", {"one": "package.one"}, FamilyFields)
    for _ in range(2):  # no member is added before the error
        with pytest.raises(UserError, match=message):
            list(registry)
        assert registry.registered == ("one",)


def test_formats_of_transformers_have_the_classes_that_tasks_declare():
    own = {"BertForPreTraining": "masked_lm", "BertModel": "backbone"}
    found = models_of(FAMILIES["bert"], "Bert", own)
    assert own.items() <= found.items()
    assert found["BertForSequenceClassification"] == "classification"
    assert found["BertForQuestionAnswering"] == "span_qa"
    assert found["BertForTokenClassification"] == "tagging"
    own = {"BertForSequenceClassification": "masked_lm"}
    assert own.items() <= models_of(FAMILIES["bert"], "Bert", own).items()
    found = models_of(FAMILIES["gpt2"], "GPT2", {})  # has no model for question answering
    assert found["GPT2ForSequenceClassification"] == "classification"
    assert "GPT2ForQuestionAnswering" not in found


def test_members_declare_classes_that_keras_finds(monkeypatch):
    before = keras_classes()
    monkeypatch.setattr(
        bert_fields,
        "FIELDS",
        dataclasses.replace(
            bert_fields.FIELDS,
            keras_classes={**bert_fields.FIELDS.keras_classes, "a.module": ("One",)},
        ),
    )
    assert keras_classes() == {**before, "a.module": ("One",)}
    registry = keras.saving.get_custom_objects()
    registration._register(keras, keras_classes)
    assert registry.pop("keras_attn>One").module == "a.module"
    registration._register(keras, lambda: {"b.module": ("other>Two",)})
    found = registry.pop("other>Two")
    assert (found.module, found.name) == ("b.module", "Two")


def test_classes_of_one_module_may_be_declared_by_several_members(monkeypatch):
    def declare(module, **classes):
        declared = dataclasses.replace(module.FIELDS, keras_classes=classes)
        monkeypatch.setattr(module, "FIELDS", declared)

    declare(bert_fields, a=("One", "Two"), b=("Three",))
    declare(gpt2_fields, a=("Two", "Four"))
    found = keras_classes()
    assert (found["a"], found["b"]) == (("One", "Two", "Four"), ("Three",))


def test_members_of_installed_packages_declare_classes(monkeypatch):
    installed = types.ModuleType("installed.fields")
    installed.FIELDS = dataclasses.replace(
        bert_fields.FIELDS, name="new", keras_classes={"installed.model": ("installed>New",)}
    )
    monkeypatch.setitem(sys.modules, "installed.fields", installed)
    registry = Registry("family", {}, FamilyFields)
    monkeypatch.setattr("keras_attn.registry.FAMILIES", registry)
    entries = [types.SimpleNamespace(name="new", value="installed")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    assert keras_classes()["installed.model"] == ("installed>New",)


def test_an_installed_package_that_fails_does_not_break_the_import_of_keras(monkeypatch):
    def fail(group):
        raise UserError("Two packages register one name")

    list(TASKS)  # has found its installed packages
    monkeypatch.setattr("keras_attn.registry.FAMILIES", Registry("family", {}, FamilyFields))
    monkeypatch.setattr(importlib.metadata, "entry_points", fail)
    with pytest.warns(UserWarning, match="no classes of installed packages. Two packages"):
        found = keras_classes()
    of_tasks = {module for task in TASKS for module in TASKS.fields(task).keras_classes}
    assert found.keys() == of_tasks


@pytest.mark.parametrize("where", ["FamilyFields", "BertFamily"])
def test_a_member_has_the_name_that_it_is_registered_by(where, monkeypatch):
    registry = Registry("family", {"other": "keras_attn.families.bert"}, FamilyFields)
    if where == "FamilyFields":
        monkeypatch.setattr(FAMILIES["bert"], "name", "other")
    with pytest.raises(ValueError, match=f"'other', but its {where} has name='bert'"):
        registry["other"]


def test_a_task_without_a_class_in_a_format_is_an_error():
    with pytest.raises(UserError, match="no model for span_qa in this family.*causal_lm"):
        model_of_task({"GPT2LMHeadModel": "causal_lm"}, "span_qa")
