"""A run: its config, workdir and engine."""

import contextlib
import functools
import hashlib
import json
import operator
import os
import tempfile

import keras

from keras_attn.convert import read_ready
from keras_attn.data.shards.shard_files import is_prepared, read_index
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.streams import check_streams_differ, display_name
from keras_attn.defaults import ENDS, declared, fields, match_task
from keras_attn.errors import UserError, forget_warnings, warn
from keras_attn.registry import ENGINES, TASKS, UNRECORDED_ENGINE, kind_of
from keras_attn.runs.config_checks import check_batch_size, check_eval_batch_size, check_fields
from keras_attn.runs.step_memory import choose_sizes
from keras_attn.saved_config import (
    changed_fields,
    check_same,
    fields_of_another_engine,
    fields_to_keep,
)
from keras_attn.training.engines import make_engine
from keras_attn.workdir import Workdir, began_as_released


@contextlib.contextmanager
def open_run(task, family, config, *, workdir, pretrained, dry_run, compared, engine_options):
    """Checks a config, makes the engine, locks the workdir, and yields the `Run`.

    The new files of a dry run are removed afterwards, and those of a new run after a `UserError`.

    Args:
        task: `keras_attn.tasks.contract.Task`.
        family: `keras_attn.families.contract.Family`.
        config: ConfigDict; it is copied.
        workdir, pretrained: Replace these fields of the config if not None.
        dry_run: Whether to only estimate the cost of the run.
        compared: Whether the run is one of several.
        engine_options: Arguments of `make_engine`.
    """
    forget_warnings()
    given = {"workdir": workdir, "pretrained": pretrained}
    config = _checked_config(task, family, config, given)
    with contextlib.ExitStack() as stack:
        if dry_run and config.workdir is None:
            config.workdir = stack.enter_context(tempfile.TemporaryDirectory())
        folder = Workdir(config.workdir)
        # Before TensorFlow is used: clusters and virtual devices can be set up only once.
        engine, name = make_engine(**engine_options), engine_options["name"]
        for line in _fix_fields(config, declared(task.name, family.name), name):
            if engine.is_chief:
                warn(line)
        _check_batch_size(config, engine)
        if not task.decodes:
            check_eval_batch_size(config.eval.batch_size, engine.num_replicas)
        elif not engine.reads_weights:
            raise UserError(
                f"data.task={task.name} decodes text during training, for which each process must "
                "have all weights. Train it in one process, or without model in --mesh"
            )
        keras.utils.set_random_seed(config.train.seed)
        stack.enter_context(_locked(folder, engine.is_chief, dry_run))
        yield Run(task, family, config, folder, name, engine, dry_run, compared)


def _checked_config(task, family, config, given):
    """Returns a copy of a config with all fields of the task, and the given values."""
    config = config.copy_and_resolve_references()
    for name, value in given.items():
        if value is not None:
            config[name] = os.fspath(value)
    match_task(config, task.name, family.name)
    if all(config.train[name] is None for name in ENDS):
        config.train.update(task.default_end)
    check_fields(config, task.name, family.name)
    check_streams_differ(
        {
            path: source
            for path, source in fields(config)
            if path.startswith(("data.train", "data.validation"))
        }
    )
    return config


def _fix_fields(config, known, engine):
    """Sets the fields that do not apply to an engine; yields a warning for each other value.

    Args:
        config: ConfigDict, which is changed.
        known: Its `Field`s by dotted name.
        engine: Name of the engine.
    """
    given = dict(fields(config))
    for path, value in ENGINES.fields(engine).fixed.items():
        if path not in known:
            continue
        if given[path] not in (value, known[path].value):
            yield f"warning: the engine {engine} uses {path}={value}, not {path}={given[path]}"
        config.update_from_flattened_dict({path: value})


def _check_batch_size(config, engine):
    check_batch_size(
        config.train.get("batch_size", _multiple(config, engine)),
        config.train.accumulate or 1,
        engine.num_replicas,
    )


def _multiple(config, engine):
    return (config.train.accumulate or 1) * engine.num_replicas


@contextlib.contextmanager
def _locked(workdir, chief, dry_run):
    """Locks a workdir; removes the new files of a dry run or after a `UserError`."""
    if chief:
        workdir.create()
        workdir.lock()
    unused = dry_run
    try:
        yield
    except UserError:
        unused = True
        raise
    finally:
        if unused and chief:
            workdir.remove_if_unused()
        workdir.unlock()


class Run:
    """The config, the workdir and the engine of a run; see `open_run`.

    Args:
        task, family, dry_run, compared: See `open_run`.
        config: ConfigDict, which is checked. Fields that the run to resume has chosen are set.
        workdir: `Workdir`, which is locked.
        engine_name: Name of the engine.
        engine: The `Engine`.

    Attributes:
        task, family, config, workdir, engine_name, engine, dry_run, compared: See the arguments.
        kind: `kind` in config.json, for the pair of family and task.
        chief: Whether this process writes files and prints.
        saved: Content of the config.json of the run to resume; None for a new run.
        resumed: Whether a run is resumed.
        resolved: Nested dict of the config, as in config.json.

    Raises:
        UserError: If the workdir contains another run.
    """

    def __init__(self, task, family, config, workdir, engine_name, engine, dry_run, compared):
        self.task, self.family, self.config, self.workdir = task, family, config, workdir
        self.engine_name, self.engine, self.chief = engine_name, engine, engine.is_chief
        self.dry_run, self.compared, self._released = dry_run, compared, False
        self.kind = kind_of(family.name, task.name)
        self.saved = workdir.saved_run(self.kind)
        self.resumed = self.saved is not None
        if not self.saved and (workdir.read_json("results.json") or {}).get("best_run"):
            raise UserError(
                "--workdir must not contain several runs. Choose another --workdir. "
                f"Received: workdir={workdir.path}"
            )
        if self.resumed:
            workdir.check_tokenizer(self.saved, family.tokenizers.files)
        self._set_lowercase()
        self.resolved = config.to_dict()
        self.resolved.pop("workdir")
        self.resolved["data"].update(self._tokenizer_settings())
        if self.resumed:  # needs neither `pretrained` nor `data.vocab` again
            was = self.saved.get("engine", UNRECORDED_ENGINE)
            known = declared(task.name, family.name)
            if was != engine_name:
                self.say(f"resuming with engine={engine_name}, was {was}")
                known = fields_of_another_engine(known, was, engine_name)
            configs = self.saved["config"], self.resolved, known
            for path, value in fields_to_keep(*configs).items():
                self.set_field(path, value)
            check_same(*configs)
            for path, (was, value) in changed_fields(*configs).items():
                self.say(f"resuming with {path}={value}, was {was}")

    @property
    def multiple(self):
        """Number that divides the batch size."""
        return _multiple(self.config, self.engine)

    @property
    def pretrained(self):
        """The `TrainedModel` with the initial weights, or None.

        Raises:
            RuntimeError: After `release_pretrained`.
        """
        if self._released:
            raise RuntimeError("Run.pretrained is used after release_pretrained()")
        return self._pretrained

    def release_pretrained(self):
        """Frees the memory of the initial weights, which training has changed."""
        self._released = True
        self.__dict__.pop("_pretrained", None)

    @functools.cached_property
    def _pretrained(self):
        source = self.config.pretrained
        if not source:
            return None
        trained = read_ready(source, self.config.data.get("lowercase"), "data.lowercase")
        tasks = self.task.starts_from
        if trained.family is not self.family or tasks and trained.task not in tasks:
            wanted = "pretrained " * bool(tasks) + f"model of {self.family.title}"
            raise UserError(
                f"pretrained must be a {wanted}. "
                f"Received: {source}, a model of {trained.family.title} ({trained.kind})"
            )
        if trained.task != self.task.name and (
            unused := TASKS[trained.task].describe_head(trained)
        ):
            self.say(f"parts of pretrained that are not used: {unused}")
        return trained

    def read(self, source, name):
        """Reads another trained model.

        Args:
            source: A workdir, or a folder of another library.
            name: Name of the field, for messages.

        Returns:
            `TrainedModel`.
        """
        try:
            return read_ready(source)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None

    def _set_lowercase(self):
        data = self.config.data
        if "lowercase" not in data:
            return
        if not self.resumed:
            data.lowercase = _lowercase(data, self.pretrained, self.family)
        elif data.lowercase is None:
            data.lowercase = self.saved["config"]["data"]["lowercase"]

    def _tokenizer_settings(self):
        """Fields of `data` for `Family.read_tokenizer` in addition to those of the config."""
        if self.resumed:
            data = self.saved["config"]["data"]
            return {name: data[name] for name in self.family.tokenizer_fields if name in data}
        return self.family.tokenizer_settings(self.pretrained.tokenizer) if self.pretrained else {}

    def tokenizer_hashes(self):
        """Returns the SHA-256 of the tokenizer files in the workdir, by name."""
        return {name: file_sha256(self.workdir / name) for name in self.family.tokenizers.files}

    def set_field(self, path, value):
        """Sets a field of the config, and of the resolved config in config.json.

        Args:
            path: Dotted name, such as "train.learning_rate".
            value: JSON-serializable value.
        """
        *groups, name = path.split(".")
        for config in (self.config, self.resolved):
            functools.reduce(operator.getitem, groups, config)[name] = value

    def fit_memory(self, architecture, heads=None, teacher=None):
        """Chooses `train.accumulate` and lowers `eval.batch_size` to fit into free memory.

        Args:
            architecture: Arguments of the backbone, with `vocabulary_size`.
            heads: Arguments of the head; None: its parameters are not counted.
            teacher: `TrainedModel` that runs in each step, or None.
        """
        chosen = choose_sizes(
            self.task, self.family, architecture, self.config, self.engine, self.say, heads, teacher
        )
        chosen = [int(number) for number in self.engine.broadcast(chosen)]
        for path, value in zip(("train.accumulate", "eval.batch_size"), chosen, strict=True):
            self.set_field(path, value)
        _check_batch_size(self.config, self.engine)  # a resumed run may have other devices

    def start(self, architecture, heads, hashes):
        """Writes config.json, which makes the folder the workdir of this run, unless `dry_run`.

        Args:
            architecture: Arguments of the backbone.
            heads: Further arguments of the task model.
            hashes: SHA-256 by the name of the data file.

        Returns:
            The hashes in config.json: those of the data, and of `pretrained`.

        Raises:
            UserError: If the data of a resumed run have changed, or workers have different data.
        """
        if self.resumed:
            source = self.saved["data_sha256"].get("pretrained")
            released = began_as_released(self.saved)
        else:
            source = self.pretrained and self.pretrained.sha256
            released = bool(self.pretrained) and self.pretrained.released
        if source:
            hashes = {**hashes, "pretrained": source}
        # Copies of standard input and of pipes have another path in every process.
        hashes = {display_name(name): sha256 for name, sha256 in hashes.items()}
        self._check_hashes(hashes)
        if self.chief and not self.dry_run:
            self.workdir.start(
                self.kind,
                self.resolved,
                architecture,
                hashes,
                heads,
                released=released,
                engine=self.engine_name,
            )
        return hashes

    def _check_hashes(self, hashes):
        content = json.dumps(hashes, sort_keys=True).encode()
        own = int(hashlib.sha256(content).hexdigest()[:12], 16)  # 48 bits: exact in float64
        if self.engine.broadcast([own])[0] != own:
            raise UserError(
                "All workers must have the same data. Received: data.train, data.validation or "
                "pretrained of this worker differ from those of the chief"
            )
        if self.resumed:
            old, new = self.saved["data_sha256"], hashes
            changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
            if changed:
                raise UserError(
                    f"The data have changed since the run started: {changed[0]}. Restore the "
                    "data, or choose another --workdir"
                )

    def match_heads(self, wanted, reset=()):
        """Returns the heads to initialize randomly; prints them, and the heads that are dropped.

        Args:
            wanted: Names of the heads that the run trains.
            reset: Names of the heads to initialize randomly even if `pretrained` contains them.

        Raises:
            UserError: If `pretrained` lacks a head and `model.new_heads` is not set.
        """
        if self.resumed or not self.pretrained:
            return wanted
        new, dropped = self.pretrained.match_heads(
            wanted, self.config.model.get("new_heads", False)
        )
        new = sorted({*new, *set(wanted).intersection(reset)})
        if new:
            self.say(f"randomly initialized heads: {', '.join(new)}")
        if dropped and self.task.pretrains:
            self.say(f"heads of pretrained that are not trained: {', '.join(dropped)}")
        return new

    def say(self, line):
        """Prints a line on the chief."""
        if self.chief:
            print(line, flush=True)

    def write_results(self, results):
        """Writes results.json on the chief."""
        if self.chief:
            self.workdir.write_json("results.json", results)

    def barrier(self):
        """Waits for all workers, for example until the chief has written a file."""
        self.engine.barrier()


def _lowercase(data, pretrained, family):
    """Returns whether to lower-case text, as in `pretrained` or in the prepared text if given."""
    if pretrained:
        return pretrained.lowercase  # `read_ready` has compared it with data.lowercase
    if data.lowercase and family.tokenizers.keeps_case:
        raise UserError(
            f"data.lowercase must be False or unset for the tokenizer of {family.title}. "
            f"Received: data.lowercase={data.lowercase}"
        )
    if not (data.train and is_prepared(data.train)):
        return family.tokenizers.lowercase if data.lowercase is None else data.lowercase
    prepared = read_index(data.train)["lowercase"]
    if data.lowercase not in (None, prepared):
        raise UserError(
            f"data.lowercase={data.lowercase} differs from {prepared} of the prepared text "
            f"{data.train}. Unset data.lowercase"
        )
    return prepared
