"""The documentation: code runs; flags, fields and link targets exist."""

import importlib
import importlib.util
import inspect
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from keras_attn.cli.config_files import config_folder, load_config
from keras_attn.defaults import fields
from keras_attn.registry import ENGINES, FAMILIES, TASKS
from tests.support.quick import quick

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WORKDIRS = ROOT / "tests/golden/workdirs_0_1"
# Workdirs that pages use, and committed models of the same kind.
STANDS_FOR = {
    "runs/mini": "bert",
    "runs/reviews": "bert_classifier",
    "runs/gpt2": "gpt2",
    "runs/ner": "../hugging_face/tagger",
    "runs/search": "../hugging_face/encoder",
    "runs/squad": "reading",
    "runs/de": "translation",
}


def _name(path):
    return path.relative_to(ROOT).as_posix()


def _blocks(text, language):
    """(line number, content) of the fenced blocks of a language."""
    for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.M | re.S):
        yield text[: found.start()].count("\n") + 1, found[1]


def _commands(text):
    """Command lines of indented blocks and of fenced blocks of a shell."""
    lines = re.sub(r"\\\n\s*", "", text)
    yield from re.findall(r"^(?:    |\t)(python -m .*)$", lines, re.M)
    for _, block in _blocks(lines, "(?:bash|sh)"):
        yield from re.findall(r"^\s*(python -m .*)$", block, re.M)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the workdirs that pages use."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "runs").mkdir()
    for name, kind in STANDS_FOR.items():
        (folder / name).symlink_to(WORKDIRS / kind)
    return folder


WITH_PYTHON = [_name(path) for path in PAGES if "```python" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", quick(WITH_PYTHON, "README.md"))
def test_python_code_of_a_page_runs(name, folder, monkeypatch):
    path = ROOT / name
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    for line, code in _blocks(path.read_text(encoding="utf-8"), "python"):
        if "    ...\n" in code:  # an excerpt, see test_adding_members.py
            continue
        compiled = compile("\n" * line + code, path, "exec")
        if not re.search(r"keras_attn\.(finetune|pretrain)\(|served/", code):  # these train a model
            exec(compiled, names)


def _help(module, **flags):
    """Returns the output of `--help`, which does not import TensorFlow."""
    given = [f"--{name}={value}" for name, value in flags.items() if value]
    command = [sys.executable, "-m", module, *given, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_commands_name_flags_and_fields_that_exist():
    known, wrong, seen = {}, [], 0
    for path in PAGES:
        for command in _commands(path.read_text(encoding="utf-8")):
            words = shlex.split(command.replace("…", ""), comments=True)
            module = words[2]
            if not (ROOT / module.split(".")[0]).is_dir() or module.startswith("benchmarks"):
                continue
            flags = dict(
                word[2:].split("=", 1) if "=" in word else (word[2:], "")
                for word in words
                if word.startswith("--")
            )
            config = flags.get("config") or None
            if config and not config.endswith(".py"):
                assert (config_folder() / f"{config.split(':')[0]}.py").exists(), (path, command)
            engine = flags.get("engine") if flags.get("engine") in ENGINES else None
            one = module, config, engine
            if one not in known:
                shown = _help(module, config=config, engine=engine)
                known[one] = set(re.findall(r"^  --([\w.]+)", shown, re.M))
            wrong += [
                (_name(path), name)
                for name in flags
                if name not in known[one] and not name.startswith("help")
            ]
            seen += len(flags)
    assert not wrong and seen > 100


def test_fields_in_tables_exist():
    known = {
        name
        for path in config_folder().glob("*.py")
        if path.stem != "__init__"
        for name, _ in fields(load_config(path, "sst2" if path.stem == "glue" else None))
    }
    for family in map(FAMILIES.fields, FAMILIES.registered):
        known.update(f"model.{name}" for name in (*family.model, *family.finetuning))
    groups = {name.split(".")[0] for name in known if "." in name}
    pattern = rf"`((?:{'|'.join(groups)})\.[a-z_]+)(?:=[^`]*)?`"
    found = {
        (_name(path), name)
        for path in PAGES
        for name in re.findall(pattern, path.read_text(encoding="utf-8"))
    }
    wrong = [
        (path, name)
        for path, name in found
        if name not in known and not name.endswith((".json", ".py", ".keras", ".source", ".target"))
    ]
    assert found and not wrong


def test_links_lead_to_files_of_the_repository():
    wrong = []
    for path in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            name = target.split("#")[0]
            if (
                not name
                or "://" in target
                or "/api/" in f"/{name}"
                or name.endswith("configuration.md")
            ):  # generated pages; mkdocs checks them
                continue
            if not (path.parent / name).exists():
                wrong.append((_name(path), target))
    assert not wrong


def test_named_files_exist():
    folders = "keras_attn|tests|docs|benchmarks|configs|pretrain|finetune|notebooks"
    path_pattern = rf"(?<![\w/.-])(?:{folders})/[\w/.-]*\w"
    found = [
        (_name(page), path)
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for path in re.findall(path_pattern, page.read_text(encoding="utf-8"))
    ]
    roots = ROOT, ROOT / "docs"
    assert len(found) > 50
    assert not [path for path in found if not any((root / path[1]).exists() for root in roots)]


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figure_of_attention_weights_has_distributions():
    pytest.importorskip("matplotlib")
    figures = _script("figures")
    x = np.random.default_rng(0).normal(size=(1, figures.LENGTH, figures.DEPTH)).astype("float32")
    found = figures.panels(x)
    assert len(found) == 12
    for title, weights in found.items():
        sums = weights.sum(axis=-1)
        if title == "local, predictive":  # the Gaussian is not renormalized
            assert (sums < 1).all()
        elif "streams" not in title:
            np.testing.assert_allclose(sums, 1, 1e-5)


@pytest.fixture(scope="module")
def generated_pages():
    pytest.importorskip("mkdocs")
    return _script("generated_pages")


def test_every_public_name_is_in_the_api_reference(generated_pages):
    pages = dict(generated_pages._api_pages())
    for name in generated_pages.MODULES:
        module = importlib.import_module(name)
        page = pages[f"api/{name.removeprefix('keras_attn.')}.md"]
        assert ":::" in page, name
        for public in getattr(module, "__all__", ()):
            own_page = f"api/{public}.md" in pages
            assert own_page or page.count(f".{public}\n") or page.endswith(f".{public}"), public


def test_the_table_of_families_names_each_of_them(generated_pages):
    assert "<!-- families and tasks -->\n" in (ROOT / "docs/index.md").read_text(encoding="utf-8")
    table = generated_pages._families_and_tasks()
    assert table.startswith("| | pretraining |") and "docs/" not in table
    links = re.findall(r"\]\((.*?\.md)\)", table)
    assert all((ROOT / "docs" / link).is_file() for link in links)
    named = table.replace(" ", "_").lower()
    own = [name for name in FAMILIES.registered if "toy" not in name]  # of other tests
    assert all(family in named.replace("gpt-2", "gpt2") for family in own)


def test_the_api_reference_lists_what_load_returns(generated_pages):
    page = dict(generated_pages._api_pages())["api/loaded.md"]
    names = {TASKS.fields(task).loaded for task in TASKS.registered} - {""}
    assert {line.removeprefix("::: ") for line in page.splitlines()[4::2]} == names
    for name in names:
        module, _, loaded = name.rpartition(".")
        assert inspect.isclass(getattr(importlib.import_module(module), loaded))


def test_the_configuration_reference_has_the_fields_of_every_family(generated_pages):
    page = generated_pages._configuration()
    for family in FAMILIES.registered:
        declared = FAMILIES.fields(family)
        for name in (*declared.model, *declared.finetuning):
            assert f"| `model.{name}` |" in page, (family, name)
