"""JSON files, of unknown origin too."""

import json
import math
import os

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import LARGEST, exists, read_bytes


def read_json(path, largest=LARGEST):
    """Returns what a JSON file of at most so many bytes holds.

    Raises:
        UserError: If there is no such file, it is too large, or no JSON.
    """
    content = read_bytes(path, largest)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{os.path.basename(path)} must be JSON. Received: {path}") from error


def read_object(path, largest=LARGEST):
    """Returns the dict that a JSON file holds; raises UserError as `read_json`."""
    found = read_json(path, largest)
    if not isinstance(found, dict):
        raise UserError(f"{os.path.basename(path)} must be a JSON object. Received: {path}")
    return found


def read_if_complete(path):
    """Returns what a JSON file of ours holds, or None if it is missing or not whole.

    Raises:
        UserError: If it cannot be read: an error of the disk or the network may pass.
    """
    if not exists(path) or tf.io.gfile.isdir(path):
        return None
    content = read_bytes(path, math.inf)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def write_json(path, value, unfinished=None):
    """Writes JSON so that the file is whole or not there; see `atomic_write`."""
    # Half a surrogate pair, of a path that is not UTF-8, becomes its JSON escape.
    content = (to_json(value, indent=1, ensure_ascii=False) + "\n").encode(
        errors="backslashreplace"
    )
    atomic_write(path, content, unfinished)


def to_json(value, **options):
    """JSON text with null for numbers that are not finite, which JSON does not have.

    Args:
        value: As `json.dumps` takes it.
        **options: Of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
