"""The modules of a folder of sentence-transformers: modules.json."""

import os
import re
from reprlib import repr as shorten
from typing import NamedTuple

from keras_attn.errors import UserError
from keras_attn.io.json_files import read_json

MODULES = "modules.json"
FORMAT = "sentence_transformers"  # in `FamilyFields.formats`
_TYPE = re.compile(r"sentence_transformers\.(?:\w+\.)*(\w+)")
_PATH = re.compile(r"(?!\.\.?$)[\w.-]+")  # a folder beside modules.json


class Module(NamedTuple):
    """A line of modules.json: the class of a module, and the path of its folder."""

    type: str
    folder: str


def has_modules(folder):
    """Returns whether a folder contains a modules.json, even one that cannot be read."""
    return os.path.lexists(os.path.join(folder, MODULES))


def read_modules(folder):
    """Reads modules.json.

    Links to files and folders are followed, as in the cache of the Hugging Face Hub.

    Returns:
        List of `Module`s, the first of which is a Transformer, and the second a Pooling. The
        others are of the types Dense and Normalize.

    Raises:
        UserError: If the file is damaged, a module is not supported, or a path is outside of the
            folder.
    """
    path = os.path.join(folder, MODULES)
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UserError(f"{MODULES} must be a list of modules. Received: {path}")
    modules = [_module(entry, folder, path) for entry in found]
    types = [module.type for module in modules]
    if types[:2] != ["Transformer", "Pooling"] or not {*types[2:]} <= {"Dense", "Normalize"}:
        raise UserError(
            "The modules must be Transformer, Pooling, and any number of Dense and Normalize. "
            f"Received: {', '.join(types) or 'none'} in {path}. To use the Transformer alone, "
            f"remove {MODULES}"
        )
    return modules


def module_folders(folder):
    """Returns the names of the folders of the modules, without the folder itself."""
    modules = read_modules(folder)
    names = (os.path.relpath(module.folder, folder) for module in modules)
    return [name for name in names if name != "."]


def _module(entry, folder, path):
    name, place = entry.get("type"), entry.get("path")
    known = _TYPE.fullmatch(name) if isinstance(name, str) else None
    if place == "":
        return Module(known[1] if known else shorten(name), folder)
    if not isinstance(place, str) or not _PATH.fullmatch(place.rstrip("/")):
        raise UserError(
            f"path must be a folder beside {MODULES}. Received: {shorten(place)} in {path}"
        )
    return Module(known[1] if known else shorten(name), os.path.join(folder, place.rstrip("/")))
