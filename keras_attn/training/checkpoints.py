"""Checkpoints: complete, flat maps from variable path to array.

A checkpoint is one `.npz` file (no pickles; every array has a checksum). `index.json`, written
last, lists the complete checkpoints, so that a resumed run ignores an unfinished one.
"""

import errno
import json
import mmap
import os
import posixpath
import re
import stat

import numpy as np

from keras_attn.errors import UserError, first_line, warn_once
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_path, open_new, reporting_failed_writes
from keras_attn.io.files import unreadable
from keras_attn.io.finite import check_weights
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.io.npz import parse_npz

# Errors of damaged content. Errors of the disk or the network are not among them: a retry may help.
DAMAGE = (ValueError, KeyError, FileNotFoundError)

_NO_VALUES = "/"  # prefix of no path


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: Folder of the checkpoints, on any filesystem of `gfile`.
        keep: Number of newest checkpoints to keep.
        log: Function that prints a warning.
        regular: Interval in steps; only checkpoints at multiples of it, and the newest, are kept
            and averaged.
    """

    def __init__(self, folder, keep=2, log=warn_once, regular=1):
        self.folder = folder
        self.keep = max(1, keep)
        self.regular = regular
        self.log = log

    def steps(self):
        """Returns the steps of the complete checkpoints, in ascending order."""
        index = read_if_complete(self._path("index.json"))
        try:
            steps = sorted(index["steps"])
            if not all(type(step) is int and 0 <= step < 2**63 for step in steps):
                raise ValueError
            return steps
        except (ValueError, KeyError, TypeError):
            steps = self._steps_of_files()
            if steps:
                self.log(
                    f"warning: {self._path('index.json')} is missing or damaged; "
                    "listing the checkpoint files instead"
                )
            return steps

    def _steps_of_files(self):
        if not gfile.isdir(self.folder):
            if gfile.exists(self.folder):
                raise UserError(
                    f"{self.folder} is a file, where a folder is written. Remove it, or choose "
                    "another --workdir"
                )
            return []
        found = (re.fullmatch(r"step-(\d+)\.npz", name) for name in gfile.listdir(self.folder))
        return sorted(int(match[1]) for match in found if match)

    def save(self, step, values, state, also=None):
        """Writes a checkpoint, and removes old ones.

        Args:
            step: Its step.
            values: Arrays by variable path.
            state: Small JSON-serializable dict.
            also: Step of a checkpoint to keep in addition to the newest ones, or None.
        """
        with reporting_failed_writes(self.folder):
            gfile.makedirs(self.folder)
        steps = sorted({*self.steps(), step})
        # The count detects arrays that are missing because the directory of the file is damaged.
        state = json.dumps({**state, "step": step, "arrays": len(values)})
        state = np.frombuffer(state.encode(), np.uint8)
        path = self._path(f"step-{step}.npz")
        with (
            reporting_failed_writes(path),
            atomic_path(path) as temporary,
            open_new(temporary) as file,
        ):
            appended = _Append(file)
            try:
                np.savez(appended, **{"state": state, **values})
            finally:
                appended.detach()
        regular = [s for s in steps if s % self.regular == 0]
        remaining = sorted({*regular[-self.keep :], *(s for s in steps if s == also), steps[-1]})
        self._write_index(remaining)
        for old in set(steps) - set(remaining):
            if gfile.exists(self._path(f"step-{old}.npz")):
                gfile.remove(self._path(f"step-{old}.npz"))

    def drop_after(self, step):
        """Removes unfinished checkpoints and those after `step`, which are damaged."""
        if not gfile.isdir(self.folder):
            return
        remaining = [s for s in self.steps() if s <= step]
        for name in gfile.listdir(self.folder):
            if name.startswith("step-") and name not in {f"step-{s}.npz" for s in remaining}:
                gfile.remove(self._path(name))
        if remaining:
            self._write_index(remaining)

    def read(self, step, prefix="", check=None):
        """Reads a checkpoint.

        Args:
            step: Its step.
            prefix: Prefix of the paths of the values to read.
            check: Function called with `{path: (shape, dtype)}` before any value is read; may
                raise a `UserError`.

        Returns:
            `(values, state)`.

        Raises:
            One of `DAMAGE`: If the checkpoint is damaged.
            UserError: If a value is not finite.
        """
        path = self._path(f"step-{step}.npz")
        if gfile.is_remote(path):
            with gfile.open_file(path, "rb") as file:
                return _parse(file.read(), path, step, prefix, check)
        # A memory-mapped file, three times as large as the weights, uses no memory.
        with _opened(path) as file, _Mapped(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _parse(content, path, step, prefix, check)

    def read_newest(self, prefix="", check=None):
        """Reads the newest checkpoint that is not damaged; None if there is none. See `read`."""
        for step in reversed(self.steps()):
            try:
                return self.read(step, prefix, check)
            except UserError:
                raise
            except DAMAGE as error:
                self.log(
                    f"warning: checkpoint {self._path(f'step-{step}.npz')} is damaged and "
                    f"skipped: {first_line(error)}"
                )
        return None

    def read_state(self):
        """Returns the state of the newest checkpoint that is not damaged; None if there is none."""
        newest = self.read_newest(_NO_VALUES)
        return newest and newest[1]

    def read_best(self, prefix="", check=None):
        """Reads the checkpoint of the best evaluation, if the run has a `Best`, else the newest."""
        state = self.read_state()
        best = state and state.get("best")
        step = best.get("step") if isinstance(best, dict) else None
        if isinstance(step, int) and step in self.steps():
            try:
                return self.read(step, prefix, check)
            except UserError:
                raise
            except DAMAGE:
                self.log(
                    f"warning: checkpoint {self._path(f'step-{step}.npz')} of the best "
                    "evaluation is damaged; using the newest"
                )
        return self.read_newest(prefix, check)

    def read_mean(self, count):
        """Averages the weights of the model over the newest checkpoints that are not damaged.

        Args:
            count: Maximum number of checkpoints. Those of the first half of the steps are not used:
                in a short run they would make the mean worse.

        Returns:
            `(values, number)`: the mean arrays by path, and the number of checkpoints.

        Raises:
            UserError: If the checkpoints have different arrays.
        """
        total, first, number, steps = {}, {}, 0, self.steps()
        chosen = [
            step
            for step in steps
            if 2 * step >= steps[-1] and (step % self.regular == 0 or step == steps[-1])
        ]
        for step in chosen[-count:]:
            try:
                values, _ = self.read(step, "model/")
            except UserError:
                raise
            except DAMAGE as error:
                self.log(
                    f"warning: checkpoint {self._path(f'step-{step}.npz')} is damaged and not "
                    f"averaged: {first_line(error)}"
                )
                continue
            number += 1
            found = {path: (array.shape, array.dtype) for path, array in values.items()}
            if (first := first or found) != found:
                raise UserError(
                    "Checkpoints to average must have arrays of the same names, shapes and types. "
                    f"Received: {self._path(f'step-{step}.npz')}, which differs from an earlier one"
                )
            for path, array in values.items():
                total[path] = total[path] + array if path in total else np.asarray(array, "float64")
        # The model checks the dtypes, so that weights of another one are an error.
        mean = {path: (added / number).astype(first[path][1]) for path, added in total.items()}
        return mean, number

    def _write_index(self, steps):
        path = self._path("index.json")
        write_json(path, {"steps": steps}, f"{path}.tmp")

    def _path(self, name):
        return posixpath.join(self.folder, name)


def _opened(path):
    """Opens a local file; raises a ValueError if it is not a regular file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("it is not a regular file")
        return open(path, "rb")
    except PermissionError as error:
        raise unreadable(path, error) from error
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise ValueError(error.strerror) from error
        raise


def _parse(content, path, step, prefix, check):
    found = []

    def choose(header):
        found.extend(header)
        wanted = {
            path: kind
            for path, kind in header.items()
            if path.startswith(prefix) and path != "state"
        }
        if check:
            check(wanted)
        return ["state", *wanted]

    values = parse_npz(content, choose)
    state = json.loads(values.pop("state").tobytes())
    if not isinstance(state, dict):
        raise ValueError("its state is not an object")
    arrays = state.pop("arrays", len(found) - 1)
    if len(found) - 1 != arrays:
        raise ValueError(f"{len(found) - 1} of {arrays} arrays")
    if state["step"] != step:
        raise ValueError(f"step {state['step']} in the file of step {step}")
    for name, array in values.items():
        check_weights(array, name, path)
    return values, state


class _Mapped(mmap.mmap):
    """Memory-mapped file with a method that zipfile requires, and mmap has from Python 3.13."""

    def seekable(self):
        return True


class _Append:
    """File to which zipfile can only append, because remote filesystems cannot seek."""

    def __init__(self, file):
        self._file = file

    def write(self, data):
        if self._file is not None:
            self._file.write(data)
        return len(data)

    def flush(self):
        if self._file is not None:
            self._file.flush()

    def detach(self):
        """Ignores later writes: an abandoned ZipFile writes its end when it is garbage-collected,
        and writing to a closed GFile can crash the process."""
        self._file = None

    def read(self, *_):  # NumPy requires it of a file
        raise OSError("write only")
