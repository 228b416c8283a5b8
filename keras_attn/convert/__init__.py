"""Checkpoints of BERT, GPT-2 and XLNet of other libraries: read, written, converted."""

import contextlib
import dataclasses
import importlib
import os
import posixpath
import shutil
import sys
import types

from keras_attn.checkpoints.hub import local_folder, what_is_meant
from keras_attn.counts import counted
from keras_attn.errors import UserError, nearest

# Formats of each family; those of a family have a module each in the package of its name.
FAMILIES = {
    "bert": ("workdir", "huggingface", "kerashub", "google"),
    "gpt2": ("workdir", "huggingface", "kerashub", "openai"),
    "xlnet": ("workdir", "huggingface", "google"),
}
FORMATS = tuple(dict.fromkeys(name for formats in FAMILIES.values() for name in formats))
# Files that tell what a folder of TensorFlow 1 holds.
_CONFIGS = {"bert_config.json": ("bert", "google"), "hparams.json": ("gpt2", "openai"),
            "xlnet_config.json": ("xlnet", "google")}
_LOCK = "lock"
_BACKBONES = {"keras_hub>BertBackbone": "bert", "keras_hub>GPT2Backbone": "gpt2"}


def _module(family, format):
    if format != "workdir":
        name = f"families.{family}.{format}"
    else:
        name = "convert.bert_workdirs" if family == "bert" else "convert.workdirs"
    return importlib.import_module(f"keras_attn.{name}")


def detect(folder):
    """Returns names of family and format of a folder, or of the checkpoint of that name in it.

    Raises:
        UserError: If it is none of `FAMILIES`.
    """
    # Here, so that `python -m keras_attn.convert` can first quieten TensorFlow.
    from keras_attn.checkpoints.safetensors_files import PICKLES, refused_pickle
    from keras_attn.checkpoints.tensorflow_files import folder_and_name
    from keras_attn.io.files import exists
    from keras_attn.io.json_files import read_json

    path = posixpath.join(folder, "config.json")
    if exists(path):
        found = read_json(path)
        if isinstance(found, dict) and not found.keys() & {"model_type", "registered_name", "kind"}:
            raise UserError("config.json must say what the model is: model_type in a folder of "
                            "transformers, registered_name in a preset of KerasHub, kind in a "
                            f"run. Received: {path} without any")
        found = found if isinstance(found, dict) else {}
        if "model_type" in found:
            return _known("model_type", found, {name: name for name in FAMILIES}, path), \
                "huggingface"
        if "registered_name" in found:
            return _known("registered_name", found, _BACKBONES, path), "kerashub"
        # Whatever else it is, the reader of a BERT says what is wrong with it.
        return _family_of_run(found.get("kind")), "workdir"
    for name, found in _CONFIGS.items():
        if os.path.isfile(os.path.join(folder_and_name(folder)[0], name)):
            return found
    if os.path.isfile(folder) and folder.endswith(PICKLES):
        raise refused_pickle(folder)
    if not exists(folder):
        raise UserError("A folder with a model is needed. Received: "
                        f"{folder}, which does not exist{what_is_meant(folder)}")
    raise UserError("A folder with a model is needed: a checkpoint of TensorFlow 1 with "
                    f"{' or '.join(_CONFIGS)}, or a run, a folder of transformers or a preset of "
                    f"KerasHub with its config.json. Received: {folder}")


def _known(field, found, names, path):
    """The family that a field of a config.json of another library names."""
    _check_local(posixpath.dirname(path))
    if str(found[field]) not in names:
        raise UserError(f"{field} must be one of {', '.join(names)}. "
                        f"Received: {str(found[field])[:50]!r} in {path}")
    return names[str(found[field])]


def _family_of_run(kind):
    from keras_attn.families import BERT, family_of_kind

    family = family_of_kind(kind)
    return "bert" if family is BERT else family.name


def family_name(folder):
    """Name of the family whose model a folder of any format holds; None if it holds none."""
    from keras_attn.workdir import run_folder

    try:
        return detect(run_folder(local_folder(folder)))[0]
    except UserError:
        return None


def read(folder):
    """Reads a model from a folder of any format; its weights when they are used.

    The files of a workdir are verified: tokenizers by SHA-256, weights by checksums. Most files of
    other libraries have neither, so that a few wrong bits in them can go unnoticed.

    Args:
        folder: A folder, or `hf:NAME[@REVISION]` of the Hugging Face Hub.

    Returns:
        A `StoredBert`, or a `StoredModel` of another family.
    """
    from keras_attn.workdir import run_folder

    return _read(run_folder(local_folder(folder)))


def _read(folder):
    family, format = detect(folder)
    stored = _module(family, format).read(folder)
    if family != "bert":
        return stored
    return dataclasses.replace(stored, vocabulary=_fitted(stored, folder))


def _fitted(stored, folder):
    """The vocabulary with a name for each row of the token table, which may have more."""
    if stored.vocabulary is None:
        return None
    rows = stored.architecture["vocabulary_size"]
    if len(stored.vocabulary) > rows:
        raise UserError("The vocabulary must not be larger than the token table. Received: "
                        f"{counted(len(stored.vocabulary), 'piece')}, {counted(rows, 'row')} in "
                        f"{folder}")
    return stored.vocabulary + [f"[row {n}]" for n in range(len(stored.vocabulary), rows)]


def _check_local(folder):
    if "://" in folder:
        raise UserError(f"A folder of this machine is needed; copy it. Received: {folder}")


def convert(source, target, format=None, *, task=None, new_heads=False, lowercase=None):
    """Writes a model in another format; no digit of a weight changes.

    Args:
        source: A folder of any of `FORMATS`, or `hf:NAME[@REVISION]`.
        target: A folder that is new or empty.
        format: One of `FORMATS` that the family has; a workdir if None and the source is none.
        task: Of a BERT: "pretraining", "masked_lm" or "encoder": the heads to write; None: those
            there are.
        new_heads: Whether heads that the source lacks may start at random.
        lowercase: Whether text is lower-cased, where the source does not say.

    Returns:
        The list of heads that start at random.

    Raises:
        UserError: If a folder or the format is wrong, or something of the model has no place.
    """
    import tensorflow as tf

    from keras_attn.checkpoints.classifier_fields import in_units_of_labels
    from keras_attn.workdir import run_folder

    source, target = local_folder(source), os.fspath(target)
    _check_local(source)
    _check_local(target)
    source = run_folder(source)
    family, found = detect(source)
    format = format or ("workdir" if found != "workdir" else None)
    if format not in FAMILIES[family]:
        raise UserError(f"format must be one of {', '.join(FAMILIES[family])} of {family}. "
                        f"Received: format={format}{nearest(format, FAMILIES[family])}")
    _check_empty(target)  # before the source is read
    stored, new = _chosen(family, source, task, new_heads, lowercase)
    if format != "workdir":
        stored = in_units_of_labels(stored)
    try:
        with _empty_folder(target):
            _module(family, format).write(target, stored)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError("The source must be readable and the target writable, with free space. "
                        f"Received: {source} to {target} ({reason})") from error
    return new


def _chosen(family, source, task, new_heads, lowercase):
    """(what the folder holds, as the arguments of `convert` want it; heads at random)."""
    from keras_attn.checkpoints.stored_model import with_tokenizer
    from keras_attn.families.bert.heads import with_task
    from keras_attn.families.bert.tensors import with_text

    stored = _read(source)
    if family == "bert":
        stored, new = with_task(stored, task, new_heads)
        return with_text(stored, lowercase, source), new
    if task is not None or new_heads:
        raise UserError("task and new_heads are for a BERT alone. "
                        f"Received: task={task}, new_heads={new_heads}, {source} is {family}")
    return with_tokenizer(stored, lowercase, source), []


def _check_empty(target):
    if os.path.exists(target) and not (
            os.path.isdir(target) and set(os.listdir(target)) <= {_LOCK}):
        raise UserError(f"The target must be a new or an empty folder. Received: {target}")


@contextlib.contextmanager
def _empty_folder(target):
    """Makes a folder that one process at a time writes to; what a failed one wrote is removed."""
    from keras_attn.io.locks import lock_file

    made = not os.path.exists(target)
    os.makedirs(target, exist_ok=True)
    lock = lock_file(os.path.join(target, _LOCK),
                     f"One process at a time may write to a folder. Received: {target}")
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

    def __call__(self, *args, **kwargs):
        return convert(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
