"""The folder a run leaves behind: what is in it, writing and reading it.

    config.json      the resolved config, architecture, hashes of the data, versions, the command
    vocab.txt        files of the tokenizer, those of its kind in text/recipes.py
    labels.json      files of the task, `TaskFields.files`
    data/            shards of token ids
    checkpoints/     see training/checkpoints.py
    metrics.jsonl    one record a step
    events/          the same for TensorBoard
    results.json     at the end: final metrics, steps, speed, versions, data hashes
    model.keras      the trained model, written after results.json
    report.html      a page on the validation of a finetuned model

A folder of several runs has `results.json`, `report.html` and `settings.json`, the fields that they
share. The first names the best of them as `best_run`: for who reads the folder it stands for that
one.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import posixpath
import re
import sys
import tempfile

import keras
import tensorflow as tf

import keras_attn
from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_path, reporting_failed_writes, temporary_folder
from keras_attn.io.files import exists, read_bytes
from keras_attn.io.json_files import read_if_complete, read_json, read_object, write_json
from keras_attn.io.locks import lock_file
from keras_attn.registry import TASKS
from keras_attn.saved_config import checked, complete
from keras_attn.text.recipes import KINDS
from keras_attn.training.checkpoints import Checkpoints

WORTH_KEEPING_SECONDS = 60.0


def member_files():
    """Names of the files that tokenizers and tasks write to a workdir before its config.json."""
    return {
        *(name for tokenizers in KINDS.values() for name in tokenizers.files),
        *(name for task in TASKS for name in TASKS.fields(task).files),
    }


def read_kind(folder):
    """Returns the `kind` in the config.json of a folder; None if the folder is not a workdir."""
    found = read_if_complete(posixpath.join(str(folder), "config.json"))
    return found.get("kind") if isinstance(found, dict) else None


def run_folder(folder):
    """The folder of the run that a folder of several stands for, or the folder itself."""
    path = posixpath.join(folder, "results.json")
    if not exists(path) or exists(posixpath.join(folder, "config.json")):
        return folder
    found = read_json(path)
    if not isinstance(found, dict) or "best_run" not in found:
        return folder
    name = found["best_run"]
    check_run_name(name, path)
    return posixpath.join(folder, name)


def check_run_name(name, path):
    """Raises UserError unless a name in a results.json is that of a folder beside it."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
        raise UserError(f"{path} must name its runs, folders beside it. Received: {name!r}")


def began_as_released(saved):
    """Whether the weights of a run began as those of a released model.

    Args:
        saved: Its config.json. Version 0.1 wrote whether it began from another model at all.
    """
    return bool(saved.get("released", saved.get("converted") or saved["config"].get("pretrained")))


class Workdir:
    """Paths and small files of a run's folder.

    Args:
        path: The folder; any filesystem of `tf.io.gfile`.
    """

    def __init__(self, path):
        if not path:
            raise UserError("A folder for the run is needed: --workdir. Received: workdir=None")
        self.path = str(path).rstrip("/") or "/"
        self._lock = None
        self._made = False
        self._unused = False

    def __truediv__(self, name):
        return posixpath.join(self.path, name)

    def create(self):
        """Makes the folder."""
        if tf.io.gfile.exists(self.path) and not tf.io.gfile.isdir(self.path):
            raise UserError(f"--workdir must be a folder. Received: workdir={self.path}")
        self._made = not tf.io.gfile.exists(self.path)
        try:
            tf.io.gfile.makedirs(self.path)
        except tf.errors.OpError as error:
            raise UserError(
                f"--workdir cannot be made. Received: workdir={self.path}: {error.message}"
            ) from error
        names = {name.rstrip("/") for name in tf.io.gfile.listdir(self.path)}
        self._unused = names <= {"lock"}

    def lock(self):
        """Keeps a second run out until this process ends, however it ends: see `lock_file`."""
        self._lock = lock_file(
            self / "lock",
            f"One run at a time may use a workdir. Received: workdir={self.path}",
        )

    def unlock(self):
        """Lets other runs in."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def read_json(self, name):
        """Reads the object in a JSON file of the folder; None if there is no such file."""
        return read_object(self / name) if exists(self / name) else None

    def read_config(self, found=None):
        """Reads config.json, checked to be what `start` wrote; None if there is none.

        Fields that the config lacks, of an older version, have their defaults.

        Args:
            found: Content of the file, if it has been read already.
        """
        found = self.read_json("config.json") if found is None else found
        names = ("kind", "config", "architecture", "data_sha256")
        if found is None:
            return None
        if not (
            all(name in found for name in names)
            and isinstance(found["kind"], str)
            and isinstance(found["config"], dict)
        ):
            raise UserError(
                f"{self / 'config.json'} must be that of a run, with "
                f"{', '.join(names)}. Received: something else"
            )
        config = checked(found["config"], found["kind"], self / "config.json")
        return {**found, "config": complete(config, found["kind"])}

    def check_tokenizer(self, saved, names):
        """Checks that the tokenizer's files are those that the run was made with.

        Args:
            saved: What config.json holds.
            names: Of the files.

        Raises:
            UserError: Names the first whose SHA-256 is not that in config.json.
        """
        recorded = saved["data_sha256"] if isinstance(saved["data_sha256"], dict) else {}
        for name in names:
            found = hashlib.sha256(read_bytes(self / name)).hexdigest()
            if found != recorded.get(name):
                raise UserError(
                    f"{self / name} has changed since the run: its SHA-256 is {found[:12]}…, "
                    f"config.json has {str(recorded.get(name))[:12]}…. Restore the original file"
                )

    def write_json(self, name, value):
        """Writes a JSON file so that readers see the old or the new one whole."""
        # One run at a time writes here: what a killed one left unfinished is written over.
        write_json(self / name, value, unfinished=self / f"{name}.tmp")

    def saved_run(self, kind):
        """The config.json of the run to go on with; None before its first checkpoint.

        Raises:
            UserError: If the folder holds another kind of run, or checkpoints alone.
        """
        found = self.read_config()
        if found is not None and found["kind"] != kind:
            raise UserError(
                f"--workdir must be new or one of {kind}. Received: "
                f"workdir={self.path}, which holds {found['kind']}"
            )
        if found is not None and found.get("converted"):
            raise UserError(
                "A converted model is there to start from: --pretrained. Received: "
                f"workdir={self.path}"
            )
        if not Checkpoints(self / "checkpoints").steps():
            return None
        if found is None:
            raise UserError(
                "A folder with checkpoints must have their config.json. "
                f"Received: workdir={self.path}"
            )
        return found

    def start(self, kind, config, architecture, hashes, heads, converted=False, released=False):
        """Writes config.json: the folder now belongs to this run.

        Args:
            kind: "pretraining", "finetuning" or "reading"; "encoder" if converted.
            config: Nested dict, JSON-able.
            architecture: Arguments of the backbone.
            hashes: SHA-256 of the data files, by name.
            heads: Further arguments of the task model.
            converted: Whether no run of ours made it, so that none can go on with it.
            released: Whether its weights began as those of a released model.
        """
        self.write_json(
            "config.json",
            {
                "kind": kind,
                "config": config,
                "architecture": architecture,
                "heads": heads,
                "converted": converted,
                "released": converted or released,
                "data_sha256": hashes,
                "command": sys.argv,
                "versions": versions(),
            },
        )

    def remove_if_unused(self):
        """Takes back what was written to a folder that was new or empty, up to `start`.

        Text that took long to prepare stays: it is whole, and the corrected
        command finds it.
        """
        if not self._unused or tf.io.gfile.exists(self / "config.json"):
            return
        for name in (*member_files(), "lock"):
            if tf.io.gfile.exists(self / name):
                tf.io.gfile.remove(self / name)
        splits = ("data/validation", "data/train")
        reports = [
            (self.read_json(f"{split}/index.json") or {}).get("report", {}) for split in splits
        ]
        seconds = sum(report.get("seconds", 0.0) for report in reports)
        if seconds < WORTH_KEEPING_SECONDS and tf.io.gfile.isdir(self / "data"):
            tf.io.gfile.rmtree(self / "data")
        if self._made and not tf.io.gfile.listdir(self.path):
            tf.io.gfile.rmtree(self.path)

    def save_model(self, model):
        """Writes model.keras, which `keras.saving.load_model` reads in safe mode.

        Raises:
            UserError: If it cannot be written; names the disk that is full.
        """
        path = self / "model.keras"
        remote = "://" in path
        # Beside the file: the disk for temporary files may be smaller than the model.
        staging = tempfile.TemporaryDirectory() if remote else temporary_folder(f"{path}.tmp")
        with reporting_failed_writes(path), staging as folder:
            local = os.path.join(folder, "model.keras")
            model.save(local)
            if remote:
                with atomic_path(path) as temporary:
                    tf.io.gfile.copy(local, temporary, overwrite=True)
            else:
                os.replace(local, path)


def versions():
    """Returns the versions of the libraries in use, by name.

    They are Python, this package, the Keras backend, and the requirements of this package, with
    those of its extras, that this process has imported.
    """
    try:
        requirements = importlib.metadata.requires("keras-attn") or ()
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        requirements = ()
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}
    names |= {"keras", "numpy", keras.backend.backend()}
    found = {"keras_attn": keras_attn.__version__, "python": platform.python_version()}
    for name in sorted(names):
        if name.replace("-", "_") in sys.modules:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
    return found
