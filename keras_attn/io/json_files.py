"""JSON files, also untrusted ones."""

import json
import math
import os

from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import LARGEST, exists, read_bytes


def read_json(path, largest=LARGEST):
    """Reads a JSON file of at most `largest` bytes.

    Raises:
        UserError: If the file does not exist, is too large, or is not JSON.
    """
    content = read_bytes(path, largest)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        form = "JSON in UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        raise UserError(f"{os.path.basename(path)} must be {form}. Received: {path}") from error


def read_object(path, largest=LARGEST):
    """Reads a JSON file that must contain an object; see `read_json`."""
    found = read_json(path, largest)
    if not isinstance(found, dict):
        raise UserError(f"{os.path.basename(path)} must be a JSON object. Received: {path}")
    return found


def read_if_complete(path):
    """Reads a JSON file of this package; returns None if it is missing or incomplete.

    Raises:
        UserError: If it cannot be read because of the disk or the network.
    """
    if not exists(path) or gfile.isdir(path):
        return None
    content = read_bytes(path, math.inf)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def write_json(path, value, unfinished=None):
    """Writes a JSON file atomically; see `atomic_write`."""
    # A lone surrogate, from a path that is not UTF-8, is written as a JSON escape.
    content = (to_json(value, indent=1, ensure_ascii=False) + "\n").encode(
        errors="backslashreplace"
    )
    atomic_write(path, content, unfinished)


def to_json(value, **options):
    """Returns JSON text, with null for NaN and infinite numbers, which JSON does not support.

    Args:
        value: Value for `json.dumps`.
        **options: Options of `json.dumps`.
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
