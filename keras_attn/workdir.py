"""The working directory of a run, with these files:

    config.json      the resolved config, architecture, hashes of the data, versions, the command
    vocab.txt        files of the tokenizer; see text/tokenizer_types.py
    labels.json      files of the task; see `TaskFields.files`
    data/            shards of token ids
    checkpoints/     see training/checkpoints.py
    metrics.jsonl    one record per step
    events/          the same for TensorBoard
    results.json     at the end: final metrics, steps, speed, versions, data hashes
    model.keras      the trained model, written after results.json
    report.html      the report on the validation of a finetuned model

The folder of several runs contains `results.json`, `report.html` and `settings.json`, the fields
that all runs share. `best_run` in results.json names the best run, which is used when the folder is
loaded.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import posixpath
import re
import sys
import tempfile

import keras

import keras_attn
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_path, reporting_failed_writes, temporary_folder
from keras_attn.io.files import exists, read_bytes
from keras_attn.io.json_files import read_if_complete, read_json, read_object, write_json
from keras_attn.io.locks import lock_file
from keras_attn.registry import TASKS
from keras_attn.saved_config import checked, complete
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES
from keras_attn.training.checkpoints import Checkpoints

WORTH_KEEPING_SECONDS = 60.0  # of text preparation


def member_files():
    """Returns the names of the files of tokenizers and tasks in a workdir."""
    return {
        *(name for tokenizers in TOKENIZER_TYPES.values() for name in tokenizers.files),
        *(name for task in TASKS for name in TASKS.fields(task).files),
    }


def read_kind(folder):
    """Returns the `kind` in the config.json of a folder; None if the folder is not a workdir."""
    found = read_if_complete(posixpath.join(str(folder), "config.json"))
    return found.get("kind") if isinstance(found, dict) else None


def run_folder(folder):
    """Returns the folder of the best run if a folder has several runs, else the folder itself."""
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
    """Raises a `UserError` if the name of a run in a results.json is not a plain folder name."""
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
        raise UserError(f"{path} must name runs by the folders beside it. Received: {name!r}")


def began_as_released(saved):
    """Returns whether the initial weights of a run are from a released model.

    Args:
        saved: Content of its config.json. Version 0.1 has no entry `released`; then this returns
            whether the run had pretrained weights.
    """
    return bool(saved.get("released", saved.get("converted") or saved["config"].get("pretrained")))


class Workdir:
    """The small files of a working directory.

    Args:
        path: The folder, on any filesystem of `gfile`.
    """

    def __init__(self, path):
        if not path:
            raise UserError("--workdir is required. Received: workdir=None")
        self.path = str(path).rstrip("/") or "/"
        if ".." in self.path.split("/") and not gfile.is_remote(self.path):
            # TensorFlow removes "missing/.." from a path, and the operating system does not.
            self.path = os.path.realpath(self.path)
        self._lock = None
        self._made = False
        self._unused = False

    def __truediv__(self, name):
        return posixpath.join(self.path, name)

    def create(self):
        """Creates the folder, if it does not exist."""
        found = exists(self.path)
        if found and not gfile.isdir(self.path):
            raise UserError(f"--workdir must be a folder. Received: workdir={self.path}")
        self._made = not found
        try:
            gfile.makedirs(self.path)
        except OSError as error:
            dangling = os.path.islink(self.path) and isinstance(error, FileExistsError)
            reason = (
                "it is a link to a missing folder. Create that folder, or remove the link"
                if dangling
                else reason_of(error)
            )
            raise UserError(f"Cannot create the folder --workdir={self.path}: {reason}") from error
        names = {name.rstrip("/") for name in gfile.listdir(self.path)}
        self._unused = names <= {"lock"}

    def lock(self):
        """Locks the folder against other runs until this process ends; see `lock_file`."""
        self._lock = lock_file(
            self / "lock",
            f"Only one run at a time can use a workdir. Received: workdir={self.path}",
        )

    def unlock(self):
        """Releases the lock."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def read_json(self, name):
        """Reads the object in a JSON file of the folder; None if the file does not exist."""
        return read_object(self / name) if exists(self / name) else None

    def read_config(self, found=None):
        """Reads and checks config.json; None if it does not exist.

        Fields that are missing in workdirs of older versions have their defaults.

        Args:
            found: Content of the file, if it has already been read.
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
                f"{self / 'config.json'} is not the config of a run: it must contain "
                f"{', '.join(names)}"
            )
        config = checked(found["config"], found["kind"], self / "config.json")
        return {**found, "config": complete(config, found["kind"])}

    def check_tokenizer(self, saved, names):
        """Checks that the files of the tokenizer have not changed since the run.

        Args:
            saved: Content of config.json.
            names: Names of the files.

        Raises:
            UserError: Names the first file whose SHA-256 differs from config.json.
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
        """Writes a JSON file atomically."""
        # The workdir is locked, so the temporary file of a killed run can be overwritten.
        write_json(self / name, value, unfinished=self / f"{name}.tmp")

    def saved_run(self, kind):
        """Returns the config.json of the run to resume; None before its first checkpoint.

        Raises:
            UserError: If the folder contains another kind of run, or checkpoints without a config.
        """
        found = self.read_config()
        if found is not None and found["kind"] != kind:
            raise UserError(
                f"--workdir must be new, or contain a run of {kind}. Received: "
                f"workdir={self.path}, a run of {found['kind']}"
            )
        if found is not None and found.get("converted"):
            raise UserError(
                "A converted model cannot be resumed. Use it as --pretrained, with another "
                f"--workdir. Received: workdir={self.path}"
            )
        if not Checkpoints(self / "checkpoints").steps():
            return None
        if found is None:
            raise UserError(
                f"{self.path} has checkpoints, but no config.json. Restore the file, or choose "
                "another --workdir"
            )
        return found

    def start(
        self,
        kind,
        config,
        architecture,
        hashes,
        heads,
        *,
        converted=False,
        released=False,
        engine=None,
    ):
        """Writes config.json, which makes the folder the workdir of a run.

        Args:
            kind: See `keras_attn.registry.kind_of`.
            config: JSON-serializable nested dict.
            architecture: Arguments of the backbone.
            hashes: SHA-256 of the data files, by name.
            heads: Further arguments of the task model.
            converted: Whether the model is a converted checkpoint, which cannot be resumed.
            released: Whether the initial weights are from a released model.
            engine: Name of the engine that trains the run; None for a converted model.
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
                **({"engine": engine} if engine else {}),
                "versions": versions(),
            },
        )

    def remove_if_unused(self):
        """Removes the new files from a folder that was new or empty, if `start` was not called.

        Text whose preparation took long is not removed: the corrected command uses it.
        """
        if not self._unused or gfile.exists(self / "config.json"):
            return
        for name in (*member_files(), "lock"):
            if gfile.exists(self / name):
                gfile.remove(self / name)
        splits = ("data/validation", "data/train")
        reports = [
            (self.read_json(f"{split}/index.json") or {}).get("report", {}) for split in splits
        ]
        seconds = sum(report.get("seconds", 0.0) for report in reports)
        if seconds < WORTH_KEEPING_SECONDS and gfile.isdir(self / "data"):
            gfile.rmtree(self / "data")
        if self._made and not gfile.listdir(self.path):
            gfile.rmtree(self.path)

    def save_model(self, model):
        """Writes model.keras, which `keras.saving.load_model` loads in safe mode.

        Raises:
            UserError: If the file cannot be written; names the disk if it is full.
        """
        path = self / "model.keras"
        remote = gfile.is_remote(path)
        # Written beside the file, because the disk of temporary files may be too small.
        staging = tempfile.TemporaryDirectory() if remote else temporary_folder(f"{path}.tmp")
        with reporting_failed_writes(path), staging as folder:
            local = os.path.join(folder, "model.keras")
            model.save(local)
            if remote:
                with atomic_path(path) as temporary:
                    gfile.copy(local, temporary)
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
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            distribution = importlib.metadata.distribution(name)
            if name.replace("-", "_") in sys.modules or not sys.modules.keys().isdisjoint(
                _modules(name)
            ):
                found[name] = distribution.version
    return found


@functools.cache  # listing the files takes as long as planning a small run
def _modules(name):
    """Returns the modules of a distribution, such as sklearn of scikit-learn."""
    distribution = importlib.metadata.distribution(name)
    declared = (distribution.read_text("top_level.txt") or "").split()
    files = () if declared else distribution.files or ()
    return {*declared, *(file.parts[0].removesuffix(".py") for file in files)}
