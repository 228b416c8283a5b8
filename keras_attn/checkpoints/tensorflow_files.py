"""TensorFlow 1 checkpoints."""

import glob
import math
import os
import re
from reprlib import repr as shorten

from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile
from keras_attn.io.files import check_regular

# Errors for a damaged checkpoint; TensorFlow raises an IndexError for a truncated one.
_DAMAGE = (OSError, ValueError, RuntimeError, IndexError, KeyError, TypeError)
# Variables of the optimizer.
_SLOTS = re.compile(r"(.*/)?(adam_[mv]|lamb_[mv]|Adam(_1)?)|global_step|beta[12]_power")


def slots(header):
    """Returns the names of the variables of optimizers."""
    return [name for name in header if _SLOTS.fullmatch(name)]


def folder_and_name(folder):
    """Splits the path of a checkpoint into its folder and name; the name of a folder is None."""
    folder = os.fspath(folder)
    if not os.path.isdir(folder) and os.path.isfile(f"{folder}.index"):
        return os.path.split(folder)
    return folder, None


def read_lowercase(config, path):
    """Returns `do_lower_case`, which our converter adds to a config; the field is optional."""
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
            f"{folder} must contain one checkpoint; to select one of several, append its name "
            f"without .index. Received: {', '.join(found) or 'none'}"
        )
    return found[0]


def read_tensors(folder, name=None):
    """Returns the `Tensors` of a checkpoint in a folder.

    Args:
        folder: The folder.
        name: Name of the checkpoint; None: the only one in the folder.

    Raises:
        UserError: If the checkpoint is missing, damaged or ambiguous.
    """
    import tensorflow as tf

    prefix = os.path.join(folder, name or _only_prefix(folder))
    shards = glob.glob(f"{glob.escape(prefix)}.data-*")
    for path in (f"{prefix}.index", *shards):
        check_regular(path)
    try:
        with gfile.os_errors(prefix):
            reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        sizes = {name: math.prod(shapes[name]) * dtypes[name].size for name in shapes}
        size = sum(os.path.getsize(path) for path in shards)
        if sum(sizes.values()) > size:
            raise ValueError(f"{size:,} of {sum(sizes.values()):,} bytes")
    except _DAMAGE as error:
        raise _damaged(prefix, error) from error

    def read_tensor(name):
        try:
            with gfile.os_errors(prefix):
                return reader.get_tensor(name)
        except _DAMAGE as error:
            raise _damaged(prefix, error) from error

    header = {name: (tuple(shapes[name]), dtypes[name].name) for name in shapes}
    return Tensors(prefix, header, read_tensor)


def _damaged(prefix, error):
    return UserError(
        f"Cannot read {prefix}: not a complete TensorFlow checkpoint ({reason_of(error)})"
    )


def write_tensors(prefix, tensors):
    """Writes a checkpoint.

    Args:
        prefix: Path without `.index`.
        tensors: Iterable of (name, array).

    Raises:
        OSError: If the files cannot be written.
    """
    import tensorflow as tf

    names, arrays = zip(*tensors, strict=True)
    with gfile.os_errors(prefix):
        tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays
        )
