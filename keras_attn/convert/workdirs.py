"""Workdirs as trained models: the folders that runs leave behind, read and written."""

import collections.abc
import functools

from keras_attn.checkpoints.architectures import MOST_LAYERS, check_architecture
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import default_config
from keras_attn.errors import UserError, warn_once
from keras_attn.registry import FAMILIES, TASKS, family_and_task
from keras_attn.tasks.embedder import MAX_LENGTH
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.workdir import Workdir, began_as_released


def read(folder, config=None, log=warn_once):
    """Reads a workdir; the weights of the checkpoint that its run chose when they are used.

    Args:
        folder: The workdir.
        config: What its config.json holds, if it has been read already.
        log: Takes warnings of damaged checkpoints.

    Returns:
        A `TrainedModel`.

    Raises:
        UserError: If it is no workdir, or its tokenizer is another than that of training.
    """
    workdir = Workdir(folder)
    saved = workdir.read_config(config)
    if saved is None:
        raise UserError(f"A workdir of a run is needed, with a config.json. Received: {folder}")
    path, known = workdir / "config.json", family_and_task(saved["kind"])
    if known is None:
        raise UserError(f"Unknown kind of run. Received: kind={saved['kind']} in {path}")
    family, task = FAMILIES[known[0]], TASKS[known[1]]
    try:
        architecture = check_architecture(family, saved["architecture"], path, MOST_LAYERS)
        heads = dict(saved.get("heads") or {})
        files = task.read_files(workdir, heads)
        heads = task.complete_heads(heads, saved["config"], files)
        family.build(task.name, architecture, heads)  # which checks its arguments
        data = saved["config"]["data"]
        weights = _Weights(
            workdir,
            saved["config"],
            family.prefix(task.name),
            family.shapes(task.name, architecture, heads),
            log,
        )
        lowercase = bool(data.get("lowercase"))
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} must be that of a run. Received: something else") from error
    workdir.check_tokenizer(saved, family.tokenizers.files)
    tokenizer = family.read_tokenizer(workdir.path, data)
    check_vocabulary_size(tokenizer, architecture, path)
    return TrainedModel(
        folder,
        family,
        task.name,
        architecture,
        heads,
        weights,
        tokenizer,
        lowercase,
        files=files,
        config=saved["config"],
        released=began_as_released(saved),
    )


def check_vocabulary_size(tokenizer, architecture, source):
    """Raises a `UserError` unless each row of the embedding matrix has a token."""
    if tokenizer.vocabulary_size != architecture["vocabulary_size"]:
        raise UserError(
            "The vocabulary must have a token for each row of the embedding matrix. "
            f"Received: {tokenizer.vocabulary_size:,} tokens, "
            f"{architecture['vocabulary_size']:,} rows in {source}"
        )


def write(folder, trained):
    """Writes a workdir that no run resumes, but that runs start from and that predicts.

    Args:
        folder: An empty or new one.
        trained: `TrainedModel` with a tokenizer.
    """
    workdir, family, task = Workdir(folder), trained.family, TASKS[trained.task]
    workdir.create()
    trained.tokenizer.write(workdir.path)
    task.write_files(workdir, trained)
    prefix = family.prefix(trained.task)
    Checkpoints(workdir / "checkpoints").save(
        0, {prefix + path: weight for path, weight in trained.weights.items()}, {"seconds": 0.0}
    )
    hashes = {name: file_sha256(workdir / name) for name in family.tokenizers.files}
    workdir.start(
        trained.kind,
        config_of(trained),
        trained.architecture,
        hashes,
        trained.heads,
        converted=True,
    )


def config_of(trained):
    """Returns the config of a model that no run of ours made: the defaults, and what it says.

    Args:
        trained: `TrainedModel` with a tokenizer.
    """
    if trained.config is not None:
        return trained.config
    config = default_config(trained.task, trained.family.name).to_dict()
    config.pop("workdir")
    data = config["data"]
    data.update(
        length=trained.architecture.get("max_length", MAX_LENGTH),
        **trained.family.tokenizer_settings(trained.tokenizer),
    )
    if "lowercase" in data:
        data["lowercase"] = trained.lowercase
    TASKS[trained.task].complete_config(config, trained)
    return config


class _Weights(collections.abc.Mapping):
    """Weights of a workdir by path below the task model, read when they are used."""

    def __init__(self, workdir, config, prefix, shapes, log):
        self._folder, self._prefix, self._shapes = workdir / "checkpoints", prefix, shapes
        # How many of the newest checkpoints the weights are the mean of.
        self._average = config.get("checkpoint", {}).get("average", 1)
        regular = 1 if self._average < 2 else config["checkpoint"]["every"]
        if not regular:
            raise UserError(
                "checkpoint.every must be set with checkpoint.average above 1. "
                f"Received: {regular} in {workdir / 'config.json'}"
            )
        self._checkpoints = Checkpoints(self._folder, regular=regular, log=log)

    @functools.cached_property
    def _arrays(self):
        if self._average > 1:
            found, count = self._checkpoints.read_mean(self._average)
            if count:
                return self._below(found)
        best = self._checkpoints.read_best("model/", self._check)
        if best is None:
            raise UserError(f"A whole checkpoint is needed. Received: {self._folder}")
        return self._below(best[0])

    def _below(self, arrays):
        return {path.removeprefix(self._prefix): array for path, array in arrays.items()}

    def _check(self, header):
        if self._shapes is None:
            return
        found = self._below(header)
        wanted = {path: (shape, "float32") for path, shape in self._shapes.items()}
        for path in sorted(found.keys() | wanted.keys()):
            if found.get(path) != wanted.get(path):
                raise UserError(
                    f"{path} must be {_described(wanted.get(path))}. Received: "
                    f"{_described(found.get(path))} in {self._folder}"
                )

    def __getitem__(self, path):
        return self._arrays[path]

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self):
        return len(self._arrays)


def _described(kind):
    return f"{kind[1]} {kind[0]}" if kind else "left out"
