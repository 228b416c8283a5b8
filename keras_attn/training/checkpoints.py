"""Checkpoints: a flat map from variable path to array, all or nothing.

A checkpoint is one `.npz` file (no pickles; every array has a checksum).
`index.json`, written last, names the ones that are complete, so a run that is
killed while writing leaves nothing that a restart would take for whole.
"""

import errno
import json
import mmap
import os
import posixpath
import re
import stat

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError, first_line, warn_once
from keras_attn.io.atomic_write import atomic_path, open_new, reporting_failed_writes
from keras_attn.io.files import unreadable
from keras_attn.io.finite import check_weights
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.io.npz import parse_npz

# Of the content. An error of the disk or the network is none: it may pass.
DAMAGE = (ValueError, KeyError, tf.errors.NotFoundError)

_NO_VALUES = "/"  # no path begins so


class Checkpoints:
    """The checkpoints of a run.

    Args:
        folder: Where they lie; any filesystem of `tf.io.gfile`.
        keep: How many of the newest to keep.
        log: Called with a line of text for each warning.
    """

    def __init__(self, folder, keep=2, log=warn_once, regular=1):
        self.folder = folder
        self.keep = max(1, keep)
        self.regular = regular
        self.log = log

    def steps(self):
        """Steps of the complete checkpoints, oldest first."""
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
                    "looking at the files"
                )
            return steps

    def _steps_of_files(self):
        if not tf.io.gfile.isdir(self.folder):
            return []
        found = (
            re.fullmatch(r"step-(\d+)\.npz", name) for name in tf.io.gfile.listdir(self.folder)
        )
        return sorted(int(match[1]) for match in found if match)

    def save(self, step, values, state, also=None):
        """Writes the arrays and a small JSON-able `state` of one step.

        The newest stay, and the one of step `also`.
        """
        with reporting_failed_writes(self.folder):
            tf.io.gfile.makedirs(self.folder)
        steps = sorted({*self.steps(), step})
        # The count: a wrong bit in the file's directory can hide arrays, and checksums see none.
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
        kept = sorted({*regular[-self.keep :], *(s for s in steps if s == also), steps[-1]})
        self._write_index(kept)
        for old in set(steps) - set(kept):
            if tf.io.gfile.exists(self._path(f"step-{old}.npz")):
                tf.io.gfile.remove(self._path(f"step-{old}.npz"))

    def go_back_to(self, step):
        """Forgets what is unfinished or damaged: all that is newer than `step`."""
        if not tf.io.gfile.isdir(self.folder):
            return
        kept = [s for s in self.steps() if s <= step]
        for name in tf.io.gfile.listdir(self.folder):
            if name.startswith("step-") and name not in {f"step-{s}.npz" for s in kept}:
                tf.io.gfile.remove(self._path(name))
        if kept:
            self._write_index(kept)

    def read(self, step, prefix="", check=None):
        """Reads one checkpoint: (values, state). Raises if it is damaged.

        Args:
            step: Its step.
            prefix: What the paths of the values to read begin with.
            check: Called with their `{path: (shape, dtype)}` before any is read, to raise a
                UserError if they are not those wanted.
        """
        path = self._path(f"step-{step}.npz")
        if "://" in path:
            with tf.io.gfile.GFile(path, "rb") as file:
                return _parse(file.read(), path, step, prefix, check)
        # Mapped, a file three times as large as the weights takes no memory.
        with _opened(path) as file, _Mapped(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _parse(content, path, step, prefix, check)

    def read_newest(self, prefix="", check=None):
        """Reads the newest whole checkpoint, or returns None if there is none; see `read`."""
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
        """The state of the newest whole checkpoint; None if there is none."""
        newest = self.read_newest(_NO_VALUES)
        return newest and newest[1]

    def read_best(self, prefix="", check=None):
        """As `read_newest`, but the best evaluation's if the run goes by one (`training.best`)."""
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
                    f"warning: checkpoint {self._path(f'step-{step}.npz')}, the best, is "
                    "damaged; taking the newest"
                )
        return self.read_newest(prefix, check)

    def read_mean(self, count):
        """The mean of the model's weights over the newest checkpoints that are whole.

        Args:
            count: How many, of those at multiples of `regular` and the newest of all; none of the
                first half of the steps, which a short run would spoil its mean with.

        Returns:
            Dict of arrays as `read` with the prefix "model/", and how many there were.
        """
        total, number, steps = {}, 0, self.steps()
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
                    f"warning: checkpoint {self._path(f'step-{step}.npz')} is damaged and "
                    f"left out of the mean: {first_line(error)}"
                )
                continue
            number += 1
            for path, array in values.items():
                total[path] = total[path] + array if path in total else np.asarray(array, "float64")
        return {path: (array / number).astype("float32") for path, array in total.items()}, number

    def _write_index(self, steps):
        path = self._path("index.json")
        write_json(path, {"steps": steps}, f"{path}.tmp")

    def _path(self, name):
        return posixpath.join(self.folder, name)


def _opened(path):
    """Opens a local file; raises ValueError if there is none but a folder, a pipe or such."""
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
    """A file in memory; zipfile asks what mmap knows from Python 3.13 on."""

    def seekable(self):
        return True


class _Append:
    """A file that zipfile can only append to: remote filesystems cannot seek."""

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
        """Drops what comes later: an abandoned ZipFile still writes its end when collected,
        and writing to a closed GFile can crash the process."""
        self._file = None

    def read(self, *_):  # NumPy takes for a file what has this
        raise OSError("write only")
