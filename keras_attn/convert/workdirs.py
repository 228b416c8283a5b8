"""Reads workdirs as trained models, and writes trained models as workdirs."""

import collections.abc
import functools

from keras_attn.checkpoints.architectures import MAX_LAYERS, check_architecture
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import default_config
from keras_attn.errors import UserError, warn_once
from keras_attn.registry import FAMILIES, TASKS, family_and_task
from keras_attn.tasks.embedder import MAX_LENGTH
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.weight_mean import PREFIX
from keras_attn.workdir import Workdir, began_as_released


def read(folder, config=None, log=warn_once):
    """Reads a workdir; the weights of the selected checkpoint are read when they are used.

    Args:
        folder: The workdir.
        config: Content of its config.json, if it has been read already.
        log: Function that receives warnings about damaged checkpoints.

    Returns:
        A `TrainedModel`.

    Raises:
        UserError: If the folder is no workdir, or its tokenizer changed after training.
    """
    workdir = Workdir(folder)
    saved = workdir.read_config(config)
    if saved is None:
        raise UserError(f"{folder} is not a workdir: it has no config.json")
    path, known = workdir / "config.json", family_and_task(saved["kind"])
    if known is None:
        raise UserError(f"Unknown kind of model. Received: kind={saved['kind']} in {path}")
    family, task = FAMILIES[known[0]], TASKS[known[1]]
    try:
        architecture = check_architecture(family, saved["architecture"], path, MAX_LAYERS)
        heads = dict(saved.get("heads") or {})
        files = task.read_files(workdir, heads)
        heads = task.complete_heads(heads, saved["config"], files)
        family.build(task.name, architecture, heads)  # checks the arguments
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
        raise UserError(f"{path} is not the config.json of a workdir") from error
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
    """Raises a `UserError` if the vocabulary size differs from the embedding matrix."""
    if tokenizer.vocabulary_size != architecture["vocabulary_size"]:
        raise UserError(
            "The vocabulary must have a token for each row of the embedding matrix. "
            f"Received: {tokenizer.vocabulary_size:,} tokens, "
            f"{architecture['vocabulary_size']:,} rows in {source}"
        )


def write(folder, trained):
    """Writes a workdir for finetuning, further pretraining and prediction, but not for resuming.

    Args:
        folder: A new or empty folder.
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
    """Returns the config of a model; for other libraries, the defaults with its settings.

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
    """The weights of a workdir by path below the task model, read when they are used."""

    def __init__(self, workdir, config, prefix, shapes, log):
        self._folder, self._prefix, self._shapes = workdir / "checkpoints", prefix, shapes
        # Number of newest checkpoints to average.
        self._average = config.get("checkpoint", {}).get("average", 1)
        self._averages_end = config.get("train", {}).get("average_fraction", 0) > 0
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
        if self._averages_end:
            newest = self._checkpoints.read_newest(f"{PREFIX}model/")
            if newest and newest[0]:
                mean = {path.removeprefix(PREFIX): array for path, array in newest[0].items()}
                return self._below(mean)
        best = self._checkpoints.read_best("model/", self._check)
        if best is None:
            raise UserError(f"{self._folder} has no complete checkpoint")
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
    return f"{kind[1]} {kind[0]}" if kind else "absent"
