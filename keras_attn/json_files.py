"""JSON files, of unknown origin too."""

import json
import os

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.whole_files import write_whole

# A tokenizer.json of a million pieces has less.
LARGEST = 100_000_000


def read_json(path, largest=LARGEST):
    """Returns what a JSON file of at most so many bytes holds.

    Raises:
        UserError: If there is no such file, it is too large, or no JSON.
    """
    try:
        content = None
        if tf.io.gfile.stat(path).length <= largest:
            with tf.io.gfile.GFile(path, "rb") as file:
                content = file.read()
    except tf.errors.OpError as error:
        raise UserError(f"A readable file is needed. Received: {path} ({error.message})") from error
    if content is None:
        raise UserError(f"A JSON file of at most {largest:,} bytes is needed. Received: {path}")
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


def read_if_whole(path):
    """Returns what a JSON file of ours holds, or None if it is missing or not whole."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return json.loads(file.read())
    except (
        tf.errors.NotFoundError, tf.errors.FailedPreconditionError, ValueError, RecursionError,
    ):  # fmt: skip
        return None


def write_json(path, value, unfinished=None):
    """Writes JSON so that the file is whole or not there; see `write_whole`."""
    content = (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
    write_whole(path, content, unfinished)
