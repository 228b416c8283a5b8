"""The table of docs/source_notes.md: classes, commands and tests exist."""

import pathlib
import re
import shlex

import pytest

import keras_attn
from keras_attn.cli.config_files import config_folder
from keras_attn.registry import FAMILIES

ROOT = pathlib.Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/source_notes.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| mechanism")
]


def _names(classes):
    return re.findall(r"`(\w+)[(`]", classes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_mechanism_has_a_class_a_command_and_a_test(row):
    _, _, classes, command, tests = row
    names = _names(classes)
    modules = keras_attn.layers, keras_attn.models, keras_attn.ops
    for name in names:
        assert any(name in module.__all__ for module in modules), name
    files = [ROOT / name for name in re.findall(r"`(.+?)`", tests)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for name in names:
        assert re.search(rf"\b{name}\b", text), (tests, name)
    words = shlex.split(command.strip("`"))
    if words[1] != "-m":
        assert (ROOT / words[1]).is_file(), command
        return
    module = ROOT / words[2].replace(".", "/")
    assert (module / "__main__.py").is_file() or module.with_suffix(".py").is_file(), command
    values = dict(word.removeprefix("--").split("=", 1) for word in words[3:])
    if "config" in values:
        assert (config_folder() / f"{values.pop('config')}.py").is_file(), command
    family = values.pop("config.model.family", None)
    if family:
        declared = FAMILIES.fields(family)
        fields = {**declared.model, **declared.finetuning}
        for name, value in values.items():
            field = fields[name.removeprefix("config.model.")]
            if field.choices:
                assert value in map(str, field.choices), command
            else:
                field.check(name, float(value))
    else:
        text = module.with_suffix(".py").read_text(encoding="utf-8") if values else ""
        assert all(f'"{name}",' in text for name in values), command


def test_every_public_attention_layer_is_in_the_table():
    listed = {name for row in ROWS for name in _names(row[2])}
    # Position encodings of later papers than the notes, and what is no attention.
    others = {
        "AlibiBias",
        "CRF",
        "LearnedPositionEmbedding",
        "RelativeAttention",
        "RelativePositionBias",
        "RotaryEmbedding",
    }
    assert set(keras_attn.layers.__all__) - listed == others
