"""Folders on the Hugging Face Hub, downloaded to its cache."""

import difflib
import os
import re

from keras_attn.errors import UserError, first_line
from keras_attn.io.paths import check_path

PREFIX = "hf:"
_HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w-]*/)?[A-Za-z0-9][\w.-]*")  # [OWNER/]MODEL
# Weights, configs and the files of any tokenizer. Pickles are not even downloaded.
_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


def local_folder(source):
    """Downloads `hf:NAME` or `hf:NAME@REVISION` and returns its folder; returns other paths as is.

    Raises:
        UserError: If the model cannot be downloaded and is not in the cache.
    """
    require_folder(source)
    source = os.fspath(source)
    if not source.startswith(PREFIX):
        check_path(source)
        return source
    try:
        import huggingface_hub
    except ImportError as error:
        raise UserError(
            f"{source} requires huggingface_hub. Run: pip install huggingface_hub"
        ) from error
    name, _, revision = source.removeprefix(PREFIX).partition("@")
    try:
        folder = huggingface_hub.snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=_FILES,
            ignore_patterns=["*/*"],  # other formats
        )
        if folders := _module_folders(folder):
            huggingface_hub.snapshot_download(
                name,
                revision=os.path.basename(folder),  # the same commit
                allow_patterns=[f"{module}/{file}" for module in folders for file in _FILES],
            )
        return folder
    except UserError:
        raise
    except huggingface_hub.utils.RepositoryNotFoundError as error:
        raise UserError(
            f"The Hugging Face Hub has no public model {name!r}. Received: {source}"
        ) from error
    except Exception as error:  # errors of the network, the hub and its cache have no common class
        raise UserError(
            f"Cannot download {source} from the Hugging Face Hub, and it is not in the cache: "
            f"{first_line(error)[:200]}. Without a network, use a downloaded folder or pretrain a "
            "model: python -m pretrain --workdir=runs/mini …"
        ) from error


def _module_folders(folder):
    """Returns the names of the folders that modules.json lists; [] without the file."""
    # Imported here, as it imports TensorFlow, which commands silence first.
    from keras_attn.checkpoints.sentence_transformers_modules import has_modules, module_folders

    return module_folders(folder) if has_modules(folder) else []


def require_folder(source):
    """Raises a `UserError` if no folder is given."""
    if not source:
        raise UserError(f"A folder with a model is required. Received: {source!r}")


def suggest_folder(folder):
    """Suggests a correction of a path that does not exist.

    Args:
        folder: A misspelled folder, or a name on the hub without `hf:`.

    Returns:
        A sentence to append to an error, or "".
    """
    parent, name = os.path.split(folder.rstrip("/"))
    if os.path.islink(folder):
        return ": it is a link to a missing folder"
    beside = os.listdir(parent or ".") if os.path.isdir(parent or ".") else []
    if close := difflib.get_close_matches(name, beside, 1, cutoff=0.8):
        return f". Did you mean {os.path.join(parent, close[0])}?"
    if _HUB_NAME.fullmatch(folder) and not os.path.isdir(parent):
        return f". Did you mean {PREFIX}{folder}, the model on the Hugging Face Hub?"
    return ""
