"""Folders of the Hugging Face Hub, downloaded when there is a network."""

import difflib
import os
import re

from keras_attn.errors import UserError, first_line
from keras_attn.io.paths import check_path

PREFIX = "hf:"
_HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w-]*/)?[A-Za-z0-9][\w.-]*")  # [OWNER/]MODEL
# What is read; no pickle is even downloaded.
_FILES = [
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
]


def local_folder(source):
    """Returns the folder of `hf:NAME` or `hf:NAME@REVISION`, downloaded; others as they are.

    Raises:
        UserError: If it cannot be downloaded and is not in the cache.
    """
    if not source:
        raise UserError("A folder with a model is needed: --workdir. Received: none")
    source = os.fspath(source)
    if not source.startswith(PREFIX):
        check_path(source)
        return source
    try:
        import huggingface_hub
    except ImportError as error:
        raise UserError(
            "hf:NAME needs huggingface_hub: pip install 'keras-attn[convert]'. "
            f"Received: {source}, not installed"
        ) from error
    name, _, revision = source.removeprefix(PREFIX).partition("@")
    try:
        return huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=_FILES, ignore_patterns=["*/*"]
        )  # of other formats
    except Exception as error:  # of the network, of the hub, of its cache: no common class
        reason = first_line(error)[:200]
        raise UserError(
            "hf:NAME must be a model of the Hugging Face Hub that can be reached or is "
            f"in the cache. Received: {source} ({reason})"
        ) from error


def what_is_meant(folder):
    """Suggests what was probably meant by a path where nothing is.

    Args:
        folder: A misspelt folder, or a name of the hub without `hf:`.

    Returns:
        A sentence to append to an error, or "".
    """
    parent, name = os.path.split(folder.rstrip("/"))
    beside = os.listdir(parent or ".") if os.path.isdir(parent or ".") else []
    if close := difflib.get_close_matches(name, beside, 1, cutoff=0.8):
        return f". Did you mean {os.path.join(parent, close[0])}?"
    if _HUB_NAME.fullmatch(folder) and not os.path.isdir(parent):
        return f". Did you mean {PREFIX}{folder}, the model of the Hugging Face Hub?"
    return ""
