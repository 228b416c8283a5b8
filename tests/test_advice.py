"""Every field, flag and package extra that a message names exists."""

import ast
import itertools
import pathlib
import re
import tomllib

from keras_attn.defaults import default_config, fields
from keras_attn.registry import ENGINES, TASKS

ROOT = pathlib.Path(__file__).parents[1]
MESSAGES = "UserError|DivergedError|say|warn|log|BadRow|line_error|_fail|print"
FILES = [
    path
    for folder in ("keras_attn", "pretrain", "finetune")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def _strings(node):
    return " ".join(
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def _is_advice(node):
    """Whether a function returns, or an assignment holds, a part of a message."""
    names = [node.name] if isinstance(node, ast.FunctionDef) else []
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    return any(re.fullmatch("_?(.*advice|ways|then|requirement)", name) for name in names)


def _advice():
    """Yields (place, function or assignment) of the parts of messages that are advice."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_advice(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def _calls(pattern):
    """Yields (place, call) of the functions whose names match."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                function = node.func
                name = getattr(function, "id", None) or getattr(function, "attr", "")
                if re.fullmatch(pattern, name):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_messages_name_existing_fields_and_flags():
    known = {name for task in TASKS for name, _ in fields(default_config(task))}
    groups = {name.split(".")[0] for name in known if "." in name}
    flags = {
        node.args[0].value
        for _, node in _calls("DEFINE_.*")
        if node.args and isinstance(node.args[0], ast.Constant)
    } | {"config"}
    flags |= {name for engine in ENGINES for name in ENGINES.fields(engine).options}
    flags |= {
        option.flag or name
        for task in TASKS
        for options in TASKS.fields(task).options.values()
        for name, option in options.items()
    }
    flags |= {f"no{name}" for name in flags}
    outside = {"direct_running_mode", "direct_num_workers"}  # options of Apache Beam
    wrong, seen = [], 0
    for place, node in itertools.chain(_calls(MESSAGES), _advice()):
        text = _strings(node)
        pattern = rf"(?<![\w./-])(?:config\.)?((?:{'|'.join(groups)})\.[a-z_]+)"
        named = {
            name
            for name in re.findall(pattern, text)
            if not name.endswith((".source", ".target", ".keras"))
        }
        asked = set(re.findall(r"(?<![\w-])--([a-z_]+)", text))
        wrong += [(place, name) for name in named - known]
        wrong += [(place, f"--{name}") for name in asked - flags - outside]
        seen += len(named) + len(asked)
    assert not wrong and seen > 150


def test_messages_name_existing_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {
        extra for path in FILES for extra in re.findall(r"keras-attn\[(\w+)\]", path.read_text())
    }
    assert named and named <= extras.keys()


def test_examples_name_models_of_the_hub_with_their_prefix():
    texts = [*FILES, *ROOT.glob("configs/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    named = [
        name
        for path in texts
        for name in re.findall(
            r"--(?:from|pretrained|workdir)=((?:hf:)?[\w/-]*(?:bert-base|gpt2|xlnet-base)[\w/-]*)",
            path.read_text(),
        )
    ]
    known = [name for name in named if "/" not in name]  # the others are folders
    assert len(known) > 1 and all(name.startswith("hf:") for name in known), known
