"""The wheel, installed from nothing into an environment outside the checkout."""

import json
import random
import re
import shutil
import zipfile

import pytest

from tests.support.environments import ROOT, install, make_environment, run

pytestmark = pytest.mark.slow(minutes=12)  # installs packages

STEPS = ["--config.train.steps=3", "--config.train.batch_size=8", "--config.eval.batch_size=8"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, made = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("wheel")
    # A build leaves folders beside the sources, which later builds would pick up.
    built = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")

    def ignore(folder, names):
        return {*built(folder, names), *(["runs"] if folder == str(ROOT) else [])}

    shutil.copytree(ROOT, source, ignore=ignore)
    make_environment(made / "env")
    run([python(made), "-m", "pip", "wheel", "--no-deps", "-w", made, source], made)
    (path,) = made.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def outside(tmp_path_factory, wheel):
    """A folder, its path with a blank, with the installed environment and some data."""
    folder = tmp_path_factory.mktemp("out side")
    make_environment(folder / "env")
    install(folder / "env" / "bin" / "python", wheel)
    words = [a + b for a in ("da", "mo", "ri", "tul", "ves") for b in ("ka", "lin", "per", "so")]
    chance = random.Random(5)
    sentences = [" ".join(chance.choices(words, k=9)) + "." for _ in range(400)]
    text = "".join(
        line + ("\n\n" if number % 8 == 7 else "\n") for number, line in enumerate(sentences)
    )
    for name in ("train.txt", "valid.txt"):
        (folder / name).write_text(text)
    rows = [f"{line}\t{'yes' if 'dak' in line else 'no'}\n" for line in sentences[:80]]
    (folder / "labelled.tsv").write_text("text\tlabel\n" + "".join(rows))
    return folder


def test_the_wheel_holds_one_name_with_configs_commands_and_license(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "keras_attn",
        f"keras_attn-{version()}.dist-info",
    }
    shipped = {path.name for path in (ROOT / "configs").glob("*.py")}
    assert {f"keras_attn/configs/{name}" for name in shipped} <= set(names)
    for name in (
        "commands/pretrain/__main__",
        "commands/pretrain/prepare",
        "commands/finetune/__main__",
        "commands/finetune/predict",
        "commands/finetune/evaluate",
        "commands/finetune/export",
        "commands/finetune/translate",
    ):
        assert f"keras_attn/{name}.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test" in name]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "keras_attn").rglob("*.py")}
    assert modules | {"keras_attn/py.typed"} <= set(names)


def test_an_installation_imports_from_itself(outside):
    program = """
import sys, keras_attn, keras_attn.configs, keras_attn.commands.finetune.predict as predict
from keras_attn.cli.config_files import config_names
assert keras_attn.configs.__file__.startswith(sys.prefix), keras_attn.configs.__file__
from keras_attn.configs import sst2  # has no file of its own
assert sst2.get_config().data.task == "sst2"
assert predict.__file__.startswith(sys.prefix), predict.__file__
print(keras_attn.__version__, *config_names())
"""
    names = run([python(outside), "-c", program], outside).split()
    shipped = {path.stem for path in (ROOT / "configs").glob("*.py")} - {"__init__"}
    assert names[-len(shipped) - 1] == version() and set(names) >= shipped


def test_installed_commands_pretrain_finetune_and_predict(outside):
    run(
        [
            command(outside, "pretrain"),
            "--config=bert_tiny",
            "--workdir=runs/text",
            *STEPS,
            "--config.data.train=train.txt",
            "--config.data.validation=valid.txt",
            "--config.data.vocab_size=200",
        ],
        outside,
    )
    assert results(outside / "runs" / "text")["steps"] == 3
    # The paths of a checkout work too.
    run(
        [
            command(outside, "finetune"),
            "--config=configs/classify.py",
            "--workdir=runs/label",
            "--pretrained=runs/text",
            *STEPS,
            "--config.data.train=labelled.tsv",
            "--config.data.validation=labelled.tsv",
            "--config.data.text=text",
            "--config.data.label=label",
        ],
        outside,
    )
    assert 0 <= results(outside / "runs" / "label")["accuracy"] <= 1
    run(
        [
            command(outside, "predict"),
            "--workdir=runs/label",
            "--input=labelled.tsv",
            "--output=predicted.tsv",
        ],
        outside,
    )
    lines = (outside / "predicted.tsv").read_text().splitlines()
    assert len(lines) in (80, 81)
    assert {line.split("\t")[0] for line in lines[-80:]} <= {"yes", "no"}


def test_modules_and_scripts_give_the_same_help(outside):
    texts = [
        re.sub(r"\s+", " ", run(call + ["--help"], outside))
        for call in (
            [command(outside, "pretrain")],
            [python(outside), "-m", "keras_attn.commands.pretrain"],
        )
    ]
    assert texts[0] == texts[1]
    assert "--config.data.train" in texts[0]


def version():
    text = (ROOT / "keras_attn" / "__init__.py").read_text()
    return re.search(r'__version__ = "(.+)"', text)[1]


def python(folder):
    return folder / "env" / "bin" / "python"


def command(folder, name):
    return folder / "env" / "bin" / f"keras-attn-{name}"


def results(workdir):
    return json.loads((workdir / "results.json").read_text())
