"""Reads, writes and converts workdirs and checkpoints of other libraries."""

import contextlib
import dataclasses
import os
import posixpath
import shutil
import sys
import types
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any

from keras_attn.checkpoints.hub import local_folder, suggest_folder
from keras_attn.errors import UserError, nearest, reason_of, warn_once
from keras_attn.io import gfile
from keras_attn.registry import FAMILIES, TASKS, family_and_task

if TYPE_CHECKING:
    from keras_attn.checkpoints.trained_model import TrainedModel

_LOCK = "lock"


def head_choices() -> dict[str, tuple[str, dict]]:
    """Returns the task and the arguments of the head for each value of `task` and `--task`.

    They are the `convert_heads` of all tasks.

    Raises:
        UserError: If two tasks declare the same value.
    """
    choices: dict[str, tuple[str, dict]] = {}
    for task in TASKS:
        for value, heads in TASKS.fields(task).convert_heads.items():
            if value in choices:
                raise UserError(
                    f"The tasks {choices[value][0]} and {task} declare the same --task={value} of "
                    "keras_attn.convert. Rename one of them"
                )
            choices[value] = task, dict(heads)
    return choices


def _module(family, format):
    if format == "workdir":
        from keras_attn.convert import workdirs

        return workdirs
    return FAMILIES[family].format(format)


def detect(folder: str) -> tuple[str, str]:
    """Returns the names of the family and the format of a folder or checkpoint.

    Raises:
        UserError: If it does not contain a model of a registered family.
    """
    return _detect(folder)[:2]


def _detect(folder):
    """Returns (family, format, content of config.json or None); see `detect`."""
    from keras_attn.checkpoints.sentence_transformers_modules import (
        FORMAT,
        MODULES,
        has_modules,
        read_modules,
    )

    if not has_modules(folder):
        return _detect_model(folder)
    family, format, config = _detect_model(read_modules(folder)[0].folder)
    if format == "huggingface" and FORMAT in FAMILIES.fields(family).formats:
        return family, FORMAT, config
    warn_once(f"warning: {MODULES} of {folder} is not used for the family {family}")
    return family, format, config


def _detect_model(folder):
    """Returns the same for a folder without modules."""
    # Imported here, so that `python -m keras_attn.convert` can silence TensorFlow first.
    from keras_attn.checkpoints.safetensors_files import PICKLES, pickle_error
    from keras_attn.checkpoints.tensorflow_files import folder_and_name
    from keras_attn.io.files import exists
    from keras_attn.io.json_files import read_object

    path = posixpath.join(folder, "config.json")
    if exists(path):
        found = read_object(path)
        if "model_type" in found:
            return _named("model_type", found, "huggingface_types", path), "huggingface", found
        if "registered_name" in found:
            return _named("registered_name", found, "kerashub_backbone", path), "kerashub", found
        if "kind" not in found:
            raise UserError(
                f"Cannot identify the model in {path}: it has neither model_type (transformers) "
                "nor registered_name (KerasHub) nor kind (workdir)"
            )
        known = family_and_task(str(found["kind"]))
        if known is None:
            raise UserError(
                f"Unknown kind of model. Received: kind={shorten(found['kind'])} in {path}"
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
        raise pickle_error(folder)
    if not exists(folder):
        raise UserError(f"The folder {folder} does not exist{suggest_folder(folder)}")
    raise UserError(
        f"{folder} does not contain a model. Supported are workdirs, folders of transformers and "
        f"presets of KerasHub, with config.json, and folders with {' or '.join(names)}"
    )


def _named(field, found, attribute, path):
    """Returns the family that a field in config.json of another library names."""
    _check_local(posixpath.dirname(path))
    names = {}
    for family in FAMILIES:
        values = getattr(FAMILIES.fields(family), attribute) or ()
        values = (values,) if isinstance(values, str) else values
        names |= dict.fromkeys(values, family)
    if str(found[field]) not in names:
        raise UserError(
            f"{field} must be one of {', '.join(names)}. "
            f"Received: {str(found[field])[:50]!r} in {path}"
        )
    return names[str(found[field])]


def family_name(folder: str | os.PathLike[str]) -> str | None:
    """Returns the name of the family of the model in a folder; None if it contains none."""
    from keras_attn.workdir import run_folder

    try:
        return detect(run_folder(local_folder(folder)))[0]
    except UserError:
        return None


def read(folder: str | os.PathLike[str]) -> "TrainedModel":
    """Reads a model from a folder of any format; its weights are read when they are used.

    Files of a workdir are verified: tokenizers by SHA-256, weights by checksums. Most files of
    other libraries have no checksums, so that a few wrong bits in them are not detected.

    Args:
        folder: A folder, or `hf:NAME[@REVISION]` on the Hugging Face Hub.

    Returns:
        A `keras_attn.checkpoints.trained_model.TrainedModel`; its `tokenizer`, `lowercase` and
        `config` may be None.
    """
    from keras_attn.workdir import run_folder

    return dataclasses.replace(_read(run_folder(local_folder(folder))), path=str(folder))


def read_ready(
    folder: str | os.PathLike[str], lowercase: bool | None = None, name: str = "lowercase"
) -> "TrainedModel":
    """Reads a model with its tokenizer and a config, for training and prediction.

    Args:
        folder: See `read`.
        lowercase: Whether text is lower-cased, for a folder that does not specify it.
        name: Name of `lowercase` in messages.

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
    if gfile.is_remote(folder):
        raise UserError(f"{folder} must be a local folder. Copy it to this machine first")


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    format: str | None = None,
    *,
    task: str | None = None,
    new_heads: bool = False,
    lowercase: bool | None = None,
) -> list[str]:
    """Converts a model to another format; weights stay bitwise identical.

    Args:
        source: A folder in any of `FORMATS`, or `hf:NAME[@REVISION]`.
        target: A new or empty folder.
        format: One of `FORMATS` that the family supports; None: a workdir, unless the source is
            one.
        task: Heads to write, one of `head_choices()`, such as "pretraining", "masked_lm" or
            "encoder" (no head); None: the heads of the source.
        new_heads: Whether missing heads may be randomly initialized.
        lowercase: Whether text is lower-cased, if the source does not specify it.

    Returns:
        List of the randomly initialized heads.

    Raises:
        UserError: If a folder or the format is invalid, or the format does not support the model.
    """
    from keras_attn.convert.heads import with_heads
    from keras_attn.workdir import run_folder

    folder, target = local_folder(source), os.fspath(target)
    _check_local(folder)
    _check_local(target)
    folder = run_folder(folder)
    family, found = detect(folder)
    fields = FAMILIES.fields(family)
    formats, reason = fields.formats, fields.missing_formats.get(str(format))
    format = format or ("workdir" if found != "workdir" else None)
    if format not in formats:
        raise UserError(
            f"format must be one of {', '.join(formats)} for {family}. "
            f"Received: format={format}" + (f". {reason}" if reason else nearest(format, formats))
        )
    _check_empty(target)  # before the source is read
    trained, module = _read(folder), _module(family, format)
    # A format of one task only writes its heads.
    heads = getattr(module, "HEADS", None)
    if heads and task is None and trained.task != head_choices()[heads][0]:
        task = heads
    trained, new = with_heads(trained, task, new_heads)
    if heads and trained.task != head_choices()[heads][0]:
        raise UserError(f"task must be {heads} for format={format}. Received: task={task}")
    trained = trained.with_text(lowercase)
    if format != "workdir" and not heads:
        trained = TASKS[trained.task].for_other_libraries(trained)
    try:
        with _empty_folder(target):
            module.write(target, trained)
    except OSError as error:
        raise UserError(
            f"Cannot convert {folder} to {target}: {reason_of(error)}. Check permissions "
            "and free space"
        ) from error
    return new


def _check_empty(target):
    if os.path.lexists(target) and not (
        os.path.isdir(target) and set(os.listdir(target)) <= {_LOCK}
    ):
        raise UserError(f"The target must be a new or empty folder. Received: {target}")


@contextlib.contextmanager
def _empty_folder(target):
    """Creates and locks a folder, and removes its content after an exception."""
    from keras_attn.io.locks import lock_file

    created = not os.path.exists(target)
    os.makedirs(target, exist_ok=True)
    lock = lock_file(
        os.path.join(target, _LOCK),
        f"Only one process at a time may write to a folder. Received: {target}",
    )
    try:
        _check_empty(target)  # again: another process may have written to it before the lock
        try:
            yield
        except BaseException:
            _remove(target, whole=created)
            raise
    finally:
        if lock:
            with contextlib.suppress(FileNotFoundError):
                os.remove(lock.name)  # before the lock is released; `lock_file` detects it
            lock.close()


def _remove(folder, whole):
    """Removes the content of a folder and, if `whole`, the folder."""
    if not os.path.isdir(folder):
        return
    for entry in os.scandir(folder):
        shutil.rmtree(entry.path) if entry.is_dir() else os.remove(entry.path)
    if whole:
        os.rmdir(folder)


class _Callable(types.ModuleType):
    """Makes the module callable: `keras_attn.convert(source, target)`."""

    @property
    def FORMATS(self) -> tuple[str, ...]:
        """Names of the formats of all families, of which installed packages may add some."""
        return tuple(
            dict.fromkeys(name for family in FAMILIES for name in FAMILIES.fields(family).formats)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> list[str]:
        return convert(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
