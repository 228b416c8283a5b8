"""The registry of families, tasks and engines, with one line for each member.

Each member is a package. Its module `fields` defines an instance of a dataclass of
`keras_attn.declarations` named `FIELDS`, for the commands, and does not import Keras. Its module
`family`, `task` or `engine` defines the object that implements
`keras_attn.families.contract.Family` or `keras_attn.tasks.contract.Task`, or the class that
implements `keras_attn.training.engines.contract.Engine`.

Installed packages add members with entry points of the groups `keras_attn.family`,
`keras_attn.task` and `keras_attn.engine`, which map the name to the package.
"""

import importlib
import importlib.metadata
import warnings
from collections.abc import Iterator
from typing import Any

from keras_attn.declarations import EngineFields, FamilyFields, TaskFields
from keras_attn.errors import UserError, first_line, nearest


class Registry:
    """Members by name, each imported on first use.

    Args:
        what: "family", "task" or "engine": the name of the module and, in upper case, of the object
            of a member.
        packages: Dict from names to packages.
        declares: Class of `FIELDS` in the module `fields` of a member.
    """

    def __init__(self, what: str, packages: dict[str, str], declares: type):
        self.what = what
        self._declares = declares
        self._packages = dict(packages)
        self._discovered = False

    def register(self, name: str, package: str) -> None:
        """Adds a member.

        Args:
            name: Name in configs and in config.json; for an engine, the value of `--engine`.
            package: Package with the modules `fields` and `family`, `task` or `engine`.

        Raises:
            UserError: If another package has the name.
            ValueError: If the package lacks its declaration.
        """
        self._declaration(package)
        self._packages = self._with(self._packages, name, package)

    def _with(self, packages, name, package):
        if packages.get(name, package) != package:
            raise UserError(
                f"Two packages register the {self.what} {name!r}: {packages[name]} and {package}. "
                "Uninstall one of them"
            )
        return {**packages, name: package}

    def fields(self, name: str) -> Any:
        """Returns the declaration `FIELDS` of a member."""
        return self._declaration(self.package(name))

    def _declaration(self, package):
        module = importlib.import_module(f"{package}.fields")
        found = getattr(module, "FIELDS", None)
        if not isinstance(found, self._declares):
            raise ValueError(
                f"{module.__name__} must have FIELDS, an instance of "
                f"{self._declares.__name__}. Received: {found!r}"
            )
        return found

    def __getitem__(self, name: str) -> Any:
        module = importlib.import_module(f"{self.package(name)}.{self.what}")
        member = getattr(module, self.what.upper())
        for found in (member, self.fields(name)):
            if getattr(found, "name", name) != name:
                raise ValueError(
                    f"{module.__package__} is registered as the {self.what} {name!r}, but its "
                    f"{type(found).__name__} has name={found.name!r}. Use one name"
                )
        return member

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(tuple(self._packages))

    @property
    def registered(self) -> tuple[str, ...]:
        """Names of the members without those of installed packages, whose search takes 10 ms."""
        return tuple(self._packages)

    def __contains__(self, name: object) -> bool:
        if name not in self._packages:
            self._discover()
        return name in self._packages

    def _discover(self):
        """Adds the members of installed packages on the first call.

        Raises:
            UserError: If two packages register the same name, or a declaration cannot be imported.
                Then no member is added.
        """
        if self._discovered:
            return
        packages = self._packages
        for entry in importlib.metadata.entry_points(group=f"keras_attn.{self.what}"):
            packages = self._with(packages, entry.name, entry.value)
            try:
                self._declaration(entry.value)
            except Exception as error:  # code of another author
                raise UserError(
                    f"Cannot use the {self.what} {entry.name!r} of the installed package "
                    f"{entry.value}. Update or uninstall it. "
                    f"Received: {type(error).__name__}: {first_line(error)}"
                ) from error
        self._packages, self._discovered = packages, True

    def package(self, name: str) -> str:
        """Returns the package of a member; raises a `UserError` for an unknown name."""
        if name not in self:
            raise UserError(
                f"Unknown {self.what} {name!r}. Choose one of "
                f"{', '.join(self._packages)}{nearest(str(name), self._packages)}"
            )
        return self._packages[name]


FAMILIES = Registry(
    "family",
    {
        "bert": "keras_attn.families.bert",
        "distilbert": "keras_attn.families.distilbert",
        "electra": "keras_attn.families.electra",
        "gpt2": "keras_attn.families.gpt2",
        "xlnet": "keras_attn.families.xlnet",
        "roberta": "keras_attn.families.roberta",
        "modernbert": "keras_attn.families.modernbert",
        "transformer": "keras_attn.families.transformer",
        "abcnn": "keras_attn.families.abcnn",
        "attentive_cnn": "keras_attn.families.attentive_cnn",
        "attentive_lstm": "keras_attn.families.attentive_lstm",
        "attentive_reader": "keras_attn.families.attentive_reader",
        "bahdanau": "keras_attn.families.bahdanau",
        "hierarchical": "keras_attn.families.hierarchical",
        "lstm": "keras_attn.families.lstm",
        "lstmn": "keras_attn.families.lstmn",
        "luong": "keras_attn.families.luong",
    },
    FamilyFields,
)
TASKS = Registry(
    "task",
    {
        "masked_lm": "keras_attn.tasks.masked_lm",
        "causal_lm": "keras_attn.tasks.causal_lm",
        "permutation_lm": "keras_attn.tasks.permutation_lm",
        "replaced_tokens": "keras_attn.tasks.replaced_tokens",
        "backbone": "keras_attn.tasks.backbone",
        "embedding": "keras_attn.tasks.embedding",
        "classification": "keras_attn.tasks.classification",
        "span_qa": "keras_attn.tasks.span_qa",
        "tagging": "keras_attn.tasks.tagging",
        "translation": "keras_attn.tasks.translation",
    },
    TaskFields,
)
ENGINES = Registry(
    "engine",
    {
        "tensorflow": "keras_attn.training.engines.tensorflow",
        "jax": "keras_attn.training.engines.jax",
    },
    EngineFields,
)

DEFAULT_ENGINE = "tensorflow"
UNRECORDED_ENGINE = "tensorflow"  # for a config.json that does not name its engine
# The default task of each command.
DEFAULT_TASKS = {"pretrain": "masked_lm", "finetune": "classification"}

# Older names of pairs of family and task, in `kind` of config.json.
_KINDS = {
    ("bert", "masked_lm"): "pretraining",
    ("bert", "backbone"): "encoder",
    ("gpt2", "causal_lm"): "language_modeling",
    ("xlnet", "permutation_lm"): "permutation_modeling",
    ("bert", "classification"): "finetuning",
    ("gpt2", "classification"): "gpt2_finetuning",
    ("xlnet", "classification"): "xlnet_finetuning",
    ("bert", "span_qa"): "reading",
    ("transformer", "translation"): "translation",
}


def kind_of(family: str, task: str) -> str:
    """Returns the `kind` of a run in config.json.

    Args:
        family, task: Names.
    """
    return _KINDS.get((family, task), f"{family}_{task}")


def family_and_task(kind: str) -> tuple[str, str] | None:
    """Returns the names of the family and the task of a `kind`; None if it is unknown."""
    for family in FAMILIES:
        for task in TASKS:
            if kind_of(family, task) == kind:
                return family, task
    return None


def task_of_config(config: Any, default: str, command: str | None = None) -> str:
    """Returns the name of the task of a config.

    Args:
        config: ConfigDict, or a nested dict.
        default: Result if `data.task` does not name a task.
        command: "pretrain" or "finetune": only its tasks; None: all tasks.
    """
    named = config.get("data", {}).get("task")
    for name in TASKS if named is not None else ():
        fields = TASKS.fields(name)
        if named in (name, *fields.names) and command in (None, fields.command):
            return name
    return default


def keras_classes() -> dict[str, tuple[str, ...]]:
    """Returns the Keras classes that members declare, by module.

    Classes of `keras_attn.models` and `keras_attn.layers` are not among them.
    """
    classes: dict[str, tuple[str, ...]] = {}
    for registry in (FAMILIES, TASKS):
        try:
            members = tuple(registry)
        except Exception as error:  # of an installed package, which must not break `import keras`
            warnings.warn(f"Keras finds no classes of installed packages. {error}", stacklevel=2)
            members = registry.registered
        for member in members:
            for module, names in registry.fields(member).keras_classes.items():
                classes[module] = tuple(dict.fromkeys((*classes.get(module, ()), *names)))
    return classes
