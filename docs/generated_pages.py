"""MkDocs hook: pages made from the code, the API reference and the configuration reference."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from keras_attn.defaults import declared
from keras_attn.registry import FAMILIES, TASKS

# Public modules, and what each page says first.
MODULES = {
    "keras_attn": "Training and loading models.",
    "keras_attn.layers": "Attention mechanisms, Transformer blocks and a CRF as Keras layers.",
    "keras_attn.models": "Backbones, and models for a task.",
    "keras_attn.ops": "Functions of tensors, written with `keras.ops`.",
    "keras_attn.generation": "Decoding with any step function.",
    "keras_attn.visualize": "Plots and pages of attention weights.",
    "keras_attn.convert": "Reading and writing checkpoints of other libraries.",
}
# Modules without `__all__` whose members are public.
MEMBERS = {
    "keras_attn.convert": ("convert", "read"),
    "keras_attn.registry": ("Registry",),
    "keras_attn.families.contract": ("Family",),
    "keras_attn.models.classifier": ("Classifier",),
    "keras_attn.tasks.contract": ("Task", "Plan"),
    "keras_attn.training.engines.contract": ("Engine", "Evaluator"),
    "keras_attn.checkpoints.trained_model": ("TrainedModel",),
}
EXTENSION_API = tuple(name for name in MEMBERS if name not in MODULES)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for path, content in {**dict(_api_pages()), "configuration.md": _configuration()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Inserts the table of families and tasks of README.md into the first page."""
    return markdown.replace("<!-- families and tasks -->", _families_and_tasks())


def _families_and_tasks() -> str:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Families and tasks\n")[2].partition("\n## ")[0]
    return section.strip().replace("](docs/", "](")


def _api_pages() -> Iterator[tuple[str, str]]:
    for name, summary in MODULES.items():
        module = importlib.import_module(name)
        public = [
            public
            for public in getattr(module, "__all__", MEMBERS.get(name, ()))
            if not inspect.ismodule(getattr(module, public))
        ]
        lines = [f"# {name}", summary, *(f"::: {_home(module, name, one)}" for one in public)]
        yield f"api/{name.removeprefix('keras_attn.')}.md", "\n\n".join(lines)
    loaded = sorted({TASKS.fields(task).loaded for task in TASKS} - {""})
    contracts = [f"{module}.{name}" for module in EXTENSION_API for name in MEMBERS[module]]
    for path, title, summary, names in (
        ("loaded", "Loaded models", "What `keras_attn.load` returns, by the task.", loaded),
        ("extending", "Extending", "Contracts of families, tasks and engines.", contracts),
    ):
        lines = [f"# {title}", summary, *(f"::: {name}" for name in names)]
        yield f"api/{path}.md", "\n\n".join(lines)


def _home(module, name, public):
    """Where a public name is defined: names that are imported when first used have no alias."""
    found = getattr(module, public)
    return f"{getattr(found, '__module__', name)}.{public}"


def _configuration() -> str:
    """Tables of the fields of each task with its default family, and of the other families."""
    lines = [
        "# Configuration reference",
        "Each field can be set on the command line: `--config.train.learning_rate=3e-4`. "
        "`python -m pretrain --config=CONFIG --help` and `python -m finetune --config=CONFIG "
        "--help` print the fields of a config. A default of *unset* means that the run "
        "chooses the value, or does without.",
        "Fields that are the same in all tasks are listed once, under *All tasks*. The sections of "
        "the tasks have the fields of their default family, and the sections of the families have "
        "those that differ, which `--config.model.family` selects.",
    ]
    tables = {
        f"`{task}`, {FAMILIES[TASKS.fields(task).family].title}": declared(task)
        for task in TASKS
        if TASKS.fields(task).command
    }
    families = {
        f"Family `{family}`": _fields_of_family(family)
        for family in FAMILIES
        if _fields_of_family(family)
    }
    shared = {
        path: field
        for path, field in next(iter(tables.values())).items()
        if all(_same(table.get(path), field) for table in tables.values())
    }
    of_tasks = {
        title: {path: field for path, field in table.items() if path not in shared}
        for title, table in tables.items()
    }
    for title, table in {"All tasks": shared, **of_tasks, **families}.items():
        rows = [
            f"| `{path}` | {_default(field)} | {_escaped(field.help)} |"
            for path, field in sorted(table.items())
        ]
        lines += [
            f"## {title}",
            "\n".join(["| field | default | meaning |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(lines)


def _fields_of_family(family):
    """Fields of a family that are not those of the default family of a task that it supports."""
    found = {}
    for task in TASKS:
        if TASKS.fields(task).command and FAMILIES[family].supports(task):
            default = declared(task)
            for path, field in declared(task, family).items():
                if not _same(default.get(path), field):
                    found[path] = field
    return found


def _same(field, other):
    return field is not None and (field.default, field.help) == (other.default, other.help)


def _default(field):
    return "*unset*" if isinstance(field.default, type) else f"`{field.default!r}`"


def _escaped(text):
    return text.replace("|", "\\|").replace("<", "&lt;")
