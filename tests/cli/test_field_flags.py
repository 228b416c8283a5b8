"""Flags of fields and task options, and errors of installed packages in commands."""

import subprocess
import sys
import types

import pytest
from absl import flags

from keras_attn.cli import field_flags, task_options
from keras_attn.declarations import Option
from keras_attn.errors import UserError
from keras_attn.field import Field


@pytest.fixture
def values(monkeypatch):
    """Empty flags, in place of those of the process."""
    values = flags.FlagValues()

    def define(function):
        return lambda *args, **kwargs: function(*args, flag_values=values, **kwargs)

    monkeypatch.setattr(
        field_flags,
        "_DEFINE",
        {kind: define(function) for kind, function in field_flags._DEFINE.items()},
    )
    monkeypatch.setattr(
        field_flags.flags, "register_validator", define(field_flags.flags.register_validator)
    )
    return values


@pytest.mark.parametrize(
    ("field", "valid", "invalid", "message"),
    [
        (Field(1, "", above=0), "1", "0", "must be above 0"),
        (Field(int, "", low=2, high=4), "4", "5", r"must be in \[2, 4\]"),
        (Field(0.1, "", low=0, below=1), "0.5", "1", r"must be in \[0, 1\)"),
        (Field(0.1, "", low=0), "7", "inf", "must be finite"),
    ],
)
def test_a_flag_has_the_bounds_of_its_field(values, field, valid, invalid, message):
    field_flags.define_flag("number", field)
    values(["program"])
    assert values.number == field.value
    values(["program", f"--number={valid}"])
    assert values.number == field.value_type(valid)
    with pytest.raises(flags.IllegalFlagValueError, match=f"--number={invalid}.*: {message}"):
        values(["program", f"--number={invalid}"])


def test_tasks_that_share_an_option_must_declare_it_alike(monkeypatch):
    options = {"one": Option(int, "Size."), "two": Option(int, "Size.")}

    class Tasks(dict):
        def fields(self, name):
            return types.SimpleNamespace(options={"export": {"size": options[name]}})

    monkeypatch.setattr(task_options, "TASKS", Tasks(options))
    assert task_options._options("export") == {"size": options["one"]}
    options["two"] = Option(float, "Size.")
    with pytest.raises(UserError, match="tasks one and two declare the option size of finetune.ex"):
        task_options._options("export")


@pytest.mark.parametrize(
    "module", ["pretrain.__main__", "finetune.export", "keras_attn.convert.__main__"]
)
def test_a_broken_installed_package_is_one_line_in_commands(module):
    program = (
        "import importlib.metadata as metadata, sys, types\n"
        "entry = types.SimpleNamespace(name='mine', value='no_such.package')\n"
        "metadata.entry_points = lambda group: [entry]\n"
        f"from {module} import command\n"
        "sys.argv = ['command', '--help']\n"
        "command()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: Cannot use the ") and "no_such.package" in done.stderr
