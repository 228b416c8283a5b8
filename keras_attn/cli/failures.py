"""Errors of commands that end with one line instead of a traceback."""

import errno
import math
import os
import re
import sys
import traceback

from absl import flags

from keras_attn.cli.engine_flag import engine_fields
from keras_attn.defaults import fields
from keras_attn.errors import UserError, nearest
from keras_attn.io.paths import scheme_of

# Fields that determine the memory of a run, and that a resumed run cannot change.
_SIZES = ("train.batch_size", "train.batch_tokens", "data.length")
# Flags whose values are never paths.
_TEXT_FLAGS = {"text", "text_pair", "prompt", "beam_options"}
_STORAGE_ERROR = re.compile(r"HTTP|curl|credential|bucket|://")
# File errors caused by the machine or the user, in addition to permissions and disk space.
_FILE_ERRORS = (
    errno.EROFS,
    errno.EDQUOT,
    errno.EIO,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EMFILE,
    errno.ENFILE,
    errno.EFBIG,
    errno.ESTALE,
    errno.ENXIO,
)


def flag_message(error):
    """Returns the message of a flag error, with suggestions for misspelled names and values."""
    if isinstance(error, flags.UnrecognizedFlagError):
        return f"Unknown flag --{error.flagname}{nearest_flag(error.flagname)}"
    message = " ".join(str(error).split())
    message = re.sub(
        r"\('Non-boolean argument to boolean flag', .*\)$", "must be a boolean", message
    )
    wrong = re.match(r"flag --[\w.]+=(.*): value should be one of <(.*)>$", message)
    return message + (nearest(wrong[1], wrong[2].split("|")) if wrong else "")


def nearest_flag(name):
    """Returns a suggestion: the flags or config fields with similar names."""
    names = [flag.name for flag in own_flags() if not flag.name.startswith("config.")]
    if "config" in flags.FLAGS:
        names += (f"config.{field}" for field, _ in fields(flags.FLAGS["config"].value))
    return nearest(name, names, prefix="--")


def own_flags():
    """Returns the flags that are not defined by a library."""
    return [
        flag
        for module, defined in flags.FLAGS.flags_by_module_dict().items()
        if not module.startswith(("absl", "tensorflow"))
        for flag in defined
    ]


def exit_with_error(message):
    line = " ".join(message.split())
    print(f"error: {line}", file=sys.stderr, flush=True)
    if _in_cluster():
        os._exit(2)
    sys.exit(2)


def exit_in_cluster(error):
    """Prints the traceback of a bug and exits, if this process is one of several workers."""
    if _in_cluster():
        traceback.print_exception(error)
        os._exit(1)


def _in_cluster():
    """Whether threads that serve other workers would prevent a failed process from exiting."""
    try:
        return engine_fields().in_cluster()
    except UserError:  # --engine names a member of a broken package: this is the error
        return False


def exit_if_known(error):
    """Exits with a one-line message if the machine or another worker caused the error."""
    name, text = type(error).__name__, str(error)
    if name == "Stopped":
        print(text, file=sys.stderr, flush=True)
        sys.exit(128 + error.signal_number)
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("tensorflow"):
        exit_with_error(
            f"This command requires {error.name}, which is not installed. Run: pip install "
            f"{error.name.partition('.')[0].replace('_', '-')}"
        )
    number = getattr(error, "errno", None)
    if number == errno.ENOSPC or "No space left" in text:
        exit_with_error(
            "No space left on the disk; files saved before are complete. Free disk space, then "
            f"run the same command again. Received: {_first_line(text)}"
        )
    if (
        isinstance(error, MemoryError)
        or name == "ResourceExhaustedError"
        or (text.startswith("RESOURCE_EXHAUSTED"))
    ):
        line = next(
            (line for line in text.splitlines() if "memory" in line.lower() or "OOM" in line), text
        )
        exit_with_error(f"Out of memory. {_memory_advice()}Received: {_first_line(line)}")
    if isinstance(error, PermissionError) or name == "PermissionDeniedError":
        exit_with_error(f"Permission denied. Received: {_first_line(text)}")
    remote = [(name, path) for name, path in path_values() if scheme_of(path)]
    from_storage = type(error).__module__.startswith("tensorflow") or (
        isinstance(error, OSError) and isinstance(error.filename, str) and scheme_of(error.filename)
    )
    if remote and from_storage and _STORAGE_ERROR.search(text):
        listed = ", ".join(f"{name}={path}" for name, path in remote)
        exit_with_error(
            f"Cannot reach the file system of {listed}. Check its name, the network and the "
            f"credentials, or use local files. Received: {_first_line(text)}"
        )
    if number in _FILE_ERRORS or any(os.strerror(one) in text for one in _FILE_ERRORS):
        exit_with_error(f"Cannot read or write a file. Received: {_first_line(text)}")
    lost = engine_fields().lost_worker(error)
    if lost is not None:
        exit_with_error(
            "Another worker was lost; start all workers again with the same command to resume "
            f"from the last checkpoint. Received: {_first_line(lost)}"
        )


def path_values():
    """Yields (name, value) of all flags and config fields whose value may be a path."""
    values = flags.FLAGS
    texts = _TEXT_FLAGS.union(engine_fields().options)
    given = {f"--{name}": values[name].value for name in values if name not in texts}
    if "config" in values:
        given |= {f"--config.{name}": value for name, value in fields(values.config)}
    for name, value in given.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            for path in one.split(",") if isinstance(one, str) else ():
                yield name, path


def _memory_advice():
    """Returns advice to reduce the memory of the command, also for a resumed run."""
    values = flags.FLAGS
    if "batch_size" in values:
        return "Lower --batch_size. "
    if "config" not in values:
        return ""
    train, known = values.config.train, dict(fields(values.config))
    can_split = (train.accumulate or 1) < (train.get("batch_size") or math.inf)
    ways = ["raise --config.train.accumulate (the same steps in smaller micro-batches)"] * can_split
    ways += ["set --config.train.remat=True (more time)"] * (not train.get("remat"))
    split = "".join(f"{way}, or " for way in ways)
    sizes = " or ".join(f"--config.{name}" for name in _SIZES if name in known)
    return (
        f"Resume with the same command and {split}lower --config.eval.batch_size; "
        f"or start a new --workdir with a lower {sizes}. "
    )


def _first_line(text):
    return text.strip().splitlines()[0][:300] if text.strip() else "no details"
