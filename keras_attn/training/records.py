"""Records of the metrics of a run: metrics.jsonl, TensorBoard, the progress line."""

import contextlib
import json
import math
import posixpath
import shutil
import sys
import time

from keras_attn.io import gfile
from keras_attn.io.atomic_write import (
    atomic_path,
    open_new,
    open_no_follow,
    reporting_failed_writes,
)
from keras_attn.io.files import exists, read_bytes
from keras_attn.io.json_files import to_json
from keras_attn.tensorflow_import import has_tensorflow

METRICS = "metrics.jsonl"


class Records:
    """Writes the metrics of a run, with one record per step.

    Args:
        folder: The workdir.
        step: Step at which the run starts. Later records, of a run that was killed before its next
            checkpoint, are dropped.
        active: Whether to write; False on workers that are not the chief.
    """

    def __init__(self, folder, step, active=True):
        self.active = active
        if not active:
            return
        self._path = posixpath.join(folder, METRICS)
        records = [record for record in read_records(folder) if record["step"] <= step]
        with reporting_failed_writes(self._path):
            gfile.makedirs(folder)
            with atomic_path(self._path) as temporary, open_new(temporary, binary=False) as file:
                file.write(_lines(records))
            self._file = (gfile.open_file if gfile.is_remote(folder) else open_no_follow)(
                self._path, "a"
            )
        self._events = _Events(posixpath.join(folder, "events")) if has_tensorflow() else None

    def write(self, records):
        """Appends records, dicts with `step`; only the last one is written to TensorBoard."""
        if not self.active or not records:
            return
        with reporting_failed_writes(self._path):
            self._file.write(_lines(map(rounded, records)))
            self._file.flush()
        if self._events:
            self._events.write(records[-1])

    def close(self):
        """Flushes and closes the files."""
        if self.active:
            with reporting_failed_writes(self._path):
                self._file.close()
            if self._events:
                self._events.close()


class _Events:
    """Writes records for TensorBoard."""

    def __init__(self, folder):
        import tensorflow as tf

        self._folder, self._scalar = folder, tf.summary.scalar
        with self._errors():
            self._writer = tf.summary.create_file_writer(folder)

    def write(self, record):
        with self._errors(), self._writer.as_default(step=record["step"]):
            for name, value in record.items():
                if name != "step":
                    self._scalar(name, value)

    def close(self):
        with self._errors():
            self._writer.close()

    @contextlib.contextmanager
    def _errors(self):
        with reporting_failed_writes(self._folder), gfile.os_errors(self._folder):
            yield


def read_records(folder):
    """Returns the records in metrics.jsonl of a workdir, in order, with NaN for null.

    Unfinished and damaged lines are skipped.

    Raises:
        UserError: If metrics.jsonl cannot be read.
    """
    path = posixpath.join(folder, METRICS)
    lines = read_bytes(path, math.inf).split(b"\n") if exists(path) else []
    return [record for record in map(_record, lines) if record]


def _record(line):
    try:
        record = json.loads(line)
        if not isinstance(record["step"], int):
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return {name: math.nan if value is None else value for name, value in record.items()}


def _lines(records):
    return "".join(f"{to_json(record)}\n" for record in records)


def rounded(record, digits=7):
    """Returns a record with floats rounded to the precision of float32."""
    return {
        name: float(f"{value:.{digits}g}") if isinstance(value, float) else value
        for name, value in record.items()
    }


class ProgressLine:
    """A line on the terminal that is updated in place; in a log file, a line from time to time.

    Args:
        total: Number of steps of the whole run; None if `train.minutes` ends it.
        stream: Output stream; defaults to standard error.
        every: Seconds between lines if the stream is not a terminal.
        active: Whether to print; False on workers that are not the chief.
    """

    def __init__(self, total, stream=None, every=15.0, active=True):
        self.total = total
        self.active = active
        self.stream = stream or sys.stderr
        self.every = every
        self._last = 0.0
        self._shown = 0  # characters of the line on the terminal

    def show(self, record, seconds_left, final=False):
        """Shows a record: step, loss, accuracies, learning rate, throughput, remaining time.

        Args:
            record: Record of the step.
            seconds_left: Estimate of the remaining time; None if unknown.
            final: Whether it is the last record of the run.
        """
        terminal = self.stream.isatty()
        if not self.active:
            return
        if not terminal and not final and time.monotonic() - self._last < self.every:
            return
        self._last = time.monotonic()
        texts = [f"step {record['step']:,}" + (f"/{self.total:,}" if self.total else "")]
        texts.append(f"loss {record['loss']:.3f}")
        texts += [
            f"{name.removesuffix('_accuracy').replace('accuracy', 'acc')} {value:.1%}"
            for name, value in record.items()
            if name.endswith("accuracy")
        ]
        texts.append(f"lr {record['learning_rate']:.1e}")
        texts.append(f"{record['sequences_per_second']:,.0f} seq/s")
        if seconds_left is not None:
            texts.append(f"{duration(seconds_left)} left")
        line = " · ".join(texts)
        if terminal:
            if not final:  # a wrapped line cannot be overwritten
                line = line[: shutil.get_terminal_size().columns - 1]
            end = "\n" if final else ""
            self.stream.write("\r" + line.ljust(self._shown) + end)
            self._shown = 0 if final else len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def interrupt(self, line):
        """Prints another line, in place of the progress line if that is on the terminal."""
        if not self.active:
            return
        if self.stream.isatty() and self._shown:
            self.stream.write("\r" + " " * self._shown + "\r")
            self._shown = 0
        self.stream.write(line + "\n")
        self.stream.flush()


def duration(seconds):
    """Formats seconds, such as `1h 02m` or `3m 20s`."""
    seconds = max(0, round(seconds))
    if seconds >= 3600:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{seconds // 60}m {seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"
