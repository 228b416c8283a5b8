"""BERT checkpoints of other libraries: read, written, changed into each other."""

import dataclasses
import importlib
import os
import posixpath
import shutil
import sys
import types

from keras_attn.convert.hub import local_folder
from keras_attn.errors import UserError

# Name: module.
FORMATS = {"workdir": "workdirs", "huggingface": "huggingface", "kerashub": "kerashub",
           "google": "google"}


def _module(format):
    return importlib.import_module(f"keras_attn.convert.{FORMATS[format]}")


def detect(folder):
    """Returns the name of the format of a folder, or of the checkpoint of that name in it.

    Raises:
        UserError: If it is none of `FORMATS`.
    """
    # Here, so that `python -m keras_attn.convert` can first quieten TensorFlow.
    import tensorflow as tf

    from keras_attn.json_files import read_json

    path = posixpath.join(folder, "config.json")
    if tf.io.gfile.exists(path):
        found = read_json(path)
        found = found if isinstance(found, dict) else {}
        # Whatever else it is, the reader of workdirs says what is wrong with it.
        format = "huggingface" if "model_type" in found else \
            "kerashub" if "registered_name" in found else "workdir"
        if format != "workdir":
            _check_local(folder)
        return format
    if _module("google").is_folder(folder):
        return "google"
    if os.path.isfile(folder) and folder.endswith(_module("huggingface").PICKLES):
        raise _module("huggingface").refused_pickle(folder)
    raise UserError("A folder with a model is needed: a checkpoint of google-research/bert with "
                    "its bert_config.json, or a run, a folder of transformers or a preset of "
                    f"KerasHub with its config.json. Received: {folder}")


def read(folder):
    """Reads a BERT from a folder of any format; its weights when they are used.

    Args:
        folder: A folder, or `hf:NAME[@REVISION]` of the Hugging Face Hub.

    Returns:
        A `StoredBert`.
    """
    from keras_attn.workdir import run_folder

    return _read(run_folder(local_folder(folder)))


def _read(folder):
    stored = _module(detect(folder)).read(folder)
    return dataclasses.replace(stored, vocabulary=_fitted(stored, folder))


def _fitted(stored, folder):
    """The vocabulary with a name for each row of the token table, which may have more."""
    if stored.vocabulary is None:
        return None
    rows = stored.architecture["vocabulary_size"]
    if len(stored.vocabulary) > rows:
        raise UserError("The vocabulary must not be larger than the token table. Received: "
                        f"{len(stored.vocabulary)} pieces, {rows} rows in {folder}")
    return stored.vocabulary + [f"[row {n}]" for n in range(len(stored.vocabulary), rows)]


def _check_local(folder):
    if "://" in folder:
        raise UserError(f"A folder of this machine is needed; copy it. Received: {folder}")


def convert(source, target, format=None, *, task=None, new_heads=False, lowercase=None):
    """Writes a BERT in another format; no digit of a weight changes.

    Args:
        source: A folder of any of `FORMATS`, or `hf:NAME[@REVISION]`.
        target: A folder that is new or empty.
        format: One of `FORMATS`; a workdir if None and the source is none.
        task: "pretraining", "masked_lm" or "encoder": the heads to write; None: those there are.
        new_heads: Whether heads that the source lacks may start at random.
        lowercase: Whether text is lower-cased, where the source does not say.

    Returns:
        The list of heads that start at random.

    Raises:
        UserError: If a folder or the format is wrong, or something of the model has no place.
    """
    import tensorflow as tf

    from keras_attn.convert.stored import with_text
    from keras_attn.convert.tasks import in_units_of_labels, with_task
    from keras_attn.workdir import run_folder

    source, target = local_folder(source), os.fspath(target)
    _check_local(source)
    _check_local(target)
    source = run_folder(source)
    found = detect(source)
    format = format or ("workdir" if found != "workdir" else None)
    if format not in FORMATS:
        raise UserError(f"format must be one of {', '.join(FORMATS)}. Received: format={format}")
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise UserError(f"The target must be a new or an empty folder. Received: {target}")
    stored, new = with_task(_read(source), task, new_heads)
    stored = with_text(stored, lowercase, source)
    if format != "workdir":
        stored = in_units_of_labels(stored)
    made = not os.path.exists(target)
    try:
        os.makedirs(target, exist_ok=True)
        _module(format).write(target, stored)
    except (OSError, tf.errors.OpError) as error:
        _remove(target, whole=made)
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError("The source must be readable and the target writable, with free space. "
                        f"Received: {source} to {target} ({reason})") from error
    except BaseException:
        _remove(target, whole=made)
        raise
    return new


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

    def __call__(self, *args, **kwargs):
        return convert(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
