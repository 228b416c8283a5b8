"""Checkpoints of TensorFlow 1: variables by name."""

import glob
import math
import os
import re
from reprlib import repr as shorten

import tensorflow as tf

from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.errors import UserError, first_line
from keras_attn.io.files import check_regular

# Of a damaged checkpoint; for one cut off TensorFlow raises an IndexError.
_DAMAGE = (tf.errors.OpError, ValueError, RuntimeError, IndexError, KeyError, TypeError)
# Of the optimizer, not of the model.
_SLOTS = re.compile(r"(.*/)?(adam_[mv]|lamb_[mv]|Adam(_1)?)|global_step|beta[12]_power")


def slots(header):
    """The names of what optimizers keep."""
    return [name for name in header if _SLOTS.fullmatch(name)]


def folder_and_name(folder):
    """(folder, name of the checkpoint in it or None): of several one may be named."""
    folder = os.fspath(folder)
    if not os.path.isdir(folder) and os.path.isfile(f"{folder}.index"):
        return os.path.split(folder)
    return folder, None


def read_lowercase(config, path):
    """`do_lower_case` of a config, which is ours: the authors' scripts take it as a flag."""
    lowercase = config.get("do_lower_case")
    if lowercase not in (None, True, False):
        raise UserError(
            f"do_lower_case must be true or false. Received: {shorten(lowercase)} in {path}"
        )
    return lowercase


def _only_prefix(folder):
    found = sorted(
        name.removesuffix(".index") for name in os.listdir(folder) if name.endswith(".index")
    )
    if len(found) != 1:
        raise UserError(
            "One checkpoint is needed; of several give the name without .index. "
            f"Received: {folder} with {', '.join(found) or 'none'}"
        )
    return found[0]


def read_tensors(folder, name=None):
    """The `Tensors` of a checkpoint in a folder; of the only one, if none is named.

    Raises:
        UserError: If it is missing or damaged, or one of several.
    """
    prefix = os.path.join(folder, name or _only_prefix(folder))
    parts = glob.glob(f"{glob.escape(prefix)}.data-*")
    for path in (f"{prefix}.index", *parts):
        check_regular(path)
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        sizes = {name: math.prod(shapes[name]) * dtypes[name].size for name in shapes}
        there = sum(os.path.getsize(path) for path in parts)
        if sum(sizes.values()) > there:
            raise ValueError(f"{there:,} of {sum(sizes.values()):,} bytes")
    except _DAMAGE as error:
        raise _damaged(prefix, error) from error

    def read_tensor(name):
        try:
            return reader.get_tensor(name)
        except _DAMAGE as error:
            raise _damaged(prefix, error) from error

    header = {name: (tuple(shapes[name]), dtypes[name].name) for name in shapes}
    return Tensors(prefix, header, read_tensor)


def _damaged(prefix, error):
    reason = first_line(error)
    return UserError(f"A whole checkpoint of TensorFlow is needed. Received: {prefix} ({reason})")


def write_tensors(prefix, tensors):
    """Writes a checkpoint.

    Args:
        prefix: Its path without `.index`.
        tensors: Iterable of (name, array).
    """
    names, arrays = zip(*tensors, strict=True)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays
    )
