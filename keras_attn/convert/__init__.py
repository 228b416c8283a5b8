"""Checkpoints of other libraries, and workdirs: read, written, converted."""

import contextlib
import dataclasses
import os
import posixpath
import shutil
import sys
import types
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any

from keras_attn.checkpoints.hub import local_folder, what_is_meant
from keras_attn.errors import UserError, nearest
from keras_attn.registry import FAMILIES, TASKS, family_and_task

if TYPE_CHECKING:
    from keras_attn.checkpoints.trained_model import TrainedModel

FORMATS = tuple(
    dict.fromkeys(name for family in FAMILIES for name in FAMILIES.fields(family).formats)
)
_LOCK = "lock"


def head_choices() -> dict[str, tuple[str, dict]]:
    """Returns the values of `task` and `--task`: the task and the arguments of the head of each.

    They are the `convert_heads` of all tasks.
    """
    return {
        value: (task, dict(heads))
        for task in TASKS
        for value, heads in TASKS.fields(task).convert_heads.items()
    }


def _module(family, format):
    if format == "workdir":
        from keras_attn.convert import workdirs

        return workdirs
    return FAMILIES[family].format(format)


def detect(folder: str) -> tuple[str, str]:
    """Returns names of family and format of a folder, or of the checkpoint of that name in it.

    Raises:
        UserError: If it holds no model of a registered family.
    """
    return _detect(folder)[:2]


def _detect(folder):
    """(family, format, content of config.json or None); see `detect`."""
    # Here, so that `python -m keras_attn.convert` can first quieten TensorFlow.
    from keras_attn.checkpoints.safetensors_files import PICKLES, refused_pickle
    from keras_attn.checkpoints.tensorflow_files import folder_and_name
    from keras_attn.io.files import exists
    from keras_attn.io.json_files import read_object

    path = posixpath.join(folder, "config.json")
    if exists(path):
        found = read_object(path)
        if "model_type" in found:
            return _named("model_type", found, "huggingface_type", path), "huggingface", found
        if "registered_name" in found:
            return _named("registered_name", found, "kerashub_backbone", path), "kerashub", found
        if "kind" not in found:
            raise UserError(
                "config.json must say what the model is: model_type in a folder of "
                "transformers, registered_name in a preset of KerasHub, kind in a "
                f"run. Received: {path} without any"
            )
        known = family_and_task(str(found["kind"]))
        if known is None:
            raise UserError(
                f"Unknown kind of run. Received: kind={shorten(found['kind'])} in {path}"
            )
        return known[0], "workdir", found
    names = {
        name: (family, format)
        for family in FAMILIES
        for name, format in FAMILIES.fields(family).config_files.items()
    }
    for name, found in names.items():
        if os.path.isfile(os.path.join(folder_and_name(folder)[0], name)):
            return *found, None
    if os.path.isfile(folder) and folder.endswith(PICKLES):
        raise refused_pickle(folder)
    if not exists(folder):
        raise UserError(
            "A folder with a model is needed. Received: "
            f"{folder}, which does not exist{what_is_meant(folder)}"
        )
    raise UserError(
        "A folder with a model is needed: a checkpoint of TensorFlow 1 with "
        f"{' or '.join(names)}, or a run, a folder of transformers or a preset of "
        f"KerasHub with its config.json. Received: {folder}"
    )


def _named(field, found, attribute, path):
    """The family that a field of a config.json of another library names."""
    _check_local(posixpath.dirname(path))
    names = {getattr(FAMILIES.fields(family), attribute): family for family in FAMILIES}
    names.pop(None, None)
    if str(found[field]) not in names:
        raise UserError(
            f"{field} must be one of {', '.join(names)}. "
            f"Received: {str(found[field])[:50]!r} in {path}"
        )
    return names[str(found[field])]


def family_name(folder: str | os.PathLike[str]) -> str | None:
    """Name of the family whose model a folder of any format holds; None if it holds none."""
    from keras_attn.workdir import run_folder

    try:
        return detect(run_folder(local_folder(folder)))[0]
    except UserError:
        return None


def read(folder: str | os.PathLike[str]) -> "TrainedModel":
    """Reads a model from a folder of any format; its weights when they are used.

    The files of a workdir are verified: tokenizers by SHA-256, weights by checksums. Most files of
    other libraries have neither, so that a few wrong bits in them can go unnoticed.

    Args:
        folder: A folder, or `hf:NAME[@REVISION]` of the Hugging Face Hub.

    Returns:
        A `keras_attn.checkpoints.trained_model.TrainedModel`; its `tokenizer`, `lowercase` and
        `config` may be None.
    """
    from keras_attn.workdir import run_folder

    return dataclasses.replace(_read(run_folder(local_folder(folder))), path=str(folder))


def read_ready(
    folder: str | os.PathLike[str], lowercase: bool | None = None, name: str = "lowercase"
) -> "TrainedModel":
    """Reads a model with its tokenizer and a config, as runs and predictions need it.

    Args:
        folder: See `read`.
        lowercase: Whether text is lower-cased, for a folder that does not say.
        name: What messages call `lowercase`.

    Returns:
        A `TrainedModel` without None in `tokenizer`, `lowercase` and `config`.

    Raises:
        UserError: See `TrainedModel.with_text`.
    """
    from keras_attn.convert.workdirs import config_of

    trained = read(folder).with_text(lowercase, name)
    return dataclasses.replace(trained, config=config_of(trained))


def _read(folder):
    family, format, config = _detect(folder)
    read_format = _module(family, format).read
    return read_format(folder) if config is None else read_format(folder, config)


def _check_local(folder):
    if "://" in folder:
        raise UserError(f"A folder of this machine is needed; copy it. Received: {folder}")


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    format: str | None = None,
    *,
    task: str | None = None,
    new_heads: bool = False,
    lowercase: bool | None = None,
) -> list[str]:
    """Writes a model in another format; no digit of a weight changes.

    Args:
        source: A folder of any of `FORMATS`, or `hf:NAME[@REVISION]`.
        target: A folder that is new or empty.
        format: One of `FORMATS` that the family has; a workdir if None and the source is none.
        task: The heads to write, of a family with masked language models: "pretraining",
            "masked_lm" or "encoder", for none; None: those of the source.
        new_heads: Whether heads that the source lacks may be randomly initialized.
        lowercase: Whether text is lower-cased, where the source does not say.

    Returns:
        The list of heads that start at random.

    Raises:
        UserError: If a folder or the format is wrong, or something of the model has no place.
    """
    import tensorflow as tf

    from keras_attn.convert.heads import with_heads
    from keras_attn.workdir import run_folder

    folder, target = local_folder(source), os.fspath(target)
    _check_local(folder)
    _check_local(target)
    folder = run_folder(folder)
    family, found = detect(folder)
    formats = FAMILIES.fields(family).formats
    format = format or ("workdir" if found != "workdir" else None)
    if format not in formats:
        raise UserError(
            f"format must be one of {', '.join(formats)} of {family}. "
            f"Received: format={format}{nearest(format, formats)}"
        )
    _check_empty(target)  # before the source is read
    trained = _read(folder)
    trained, new = with_heads(trained, task, new_heads)
    trained = trained.with_text(lowercase)
    if format != "workdir":
        trained = TASKS[trained.task].for_other_libraries(trained)
    try:
        with _empty_folder(target):
            _module(family, format).write(target, trained)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(
            "The source must be readable and the target writable, with free space. "
            f"Received: {folder} to {target} ({reason})"
        ) from error
    return new


def _check_empty(target):
    if os.path.exists(target) and not (
        os.path.isdir(target) and set(os.listdir(target)) <= {_LOCK}
    ):
        raise UserError(f"The target must be a new or an empty folder. Received: {target}")


@contextlib.contextmanager
def _empty_folder(target):
    """Makes a folder that one process at a time writes to; what a failed one wrote is removed."""
    from keras_attn.io.locks import lock_file

    made = not os.path.exists(target)
    os.makedirs(target, exist_ok=True)
    lock = lock_file(
        os.path.join(target, _LOCK),
        f"One process at a time may write to a folder. Received: {target}",
    )
    try:
        _check_empty(target)  # again: another process may have written to it before the lock
        try:
            yield
        except BaseException:
            _remove(target, whole=made)
            raise
    finally:
        if lock:
            with contextlib.suppress(FileNotFoundError):
                os.remove(lock.name)  # before it is let go: `lock_file` sees that it is gone
            lock.close()


def _remove(folder, whole):
    """Takes back what was written to a folder, and the folder if it was made for it."""
    if not os.path.isdir(folder):
        return
    for entry in os.scandir(folder):
        shutil.rmtree(entry.path) if entry.is_dir() else os.remove(entry.path)
    if whole:
        os.rmdir(folder)


class _Callable(types.ModuleType):
    """So that `keras_attn.convert(source, target)` works, and `python -m keras_attn.convert`."""

    def __call__(self, *args: Any, **kwargs: Any) -> list[str]:
        return convert(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
