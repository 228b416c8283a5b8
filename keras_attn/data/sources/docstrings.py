"""The embedded corpus: English that any installation has, the docstrings of its Python files."""

import functools
import hashlib
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from keras_attn.data.processes import available_cores
from keras_attn.data.sources.docstring_files import (
    STANDARD_LIBRARY,
    find_modules,
    package_of,
    read_docstrings,
)
from keras_attn.errors import UserError

SPLITS = ("train", "validation")
_VALIDATION_SHARE = 0.05
# Of each package that is a class, if a quarter of it is that much: enough to measure accuracy on.
_VALIDATION_DOCSTRINGS = 150
# Docstrings that begin with the same words are versions of one text.
_WORDS_COMPARED = 16
# Boilerplate such as "Defaults to None." stays this often.
_SENTENCE_REPEATS = 3
_SHORTEST_LABELLED = 8  # words
_SMALLEST_CLASS = 100  # docstrings

# The classes: packages that every installation has and that have many docstrings, with the names
# and aliases that would tell one.
CLASSES = {
    STANDARD_LIBRARY: ("python", "cpython", "stdlib"),
    "absl": ("absl", "abseil"),
    "fsspec": ("fsspec",),
    "google": ("google", "protobuf", "protocol buffer", "protocol buffers", "proto", "protos"),
    "grpc": ("grpc", "grpcio"),
    "huggingface_hub": ("huggingface_hub", "huggingface", "hugging face", "hf", "hub"),
    "keras": ("keras",),
    "numpy": ("numpy", "np", "ndarray", "ndarrays", "ufunc", "ufuncs"),
    "tensorflow": ("tensorflow", "tf", "tfe"),
    "tensorflow_datasets": ("tensorflow_datasets", "tensorflow datasets", "tfds"),
}
_NAMES = "|".join(
    sorted((re.escape(n) for names in CLASSES.values() for n in names), key=len)[::-1]
)
_BEFORE_DOT = re.compile(rf"\b(?:{_NAMES})\.(?=\w)", re.IGNORECASE)
_ALONE = re.compile(rf"(?<![^\W_])(?:{_NAMES})(?![^\W_])", re.IGNORECASE)


@dataclass(frozen=True)
class Module:
    """The docstrings of a Python file.

    Attributes:
        name: Path within the standard library or the installed packages.
        package: Its package, the first folder; `STANDARD_LIBRARY` is one.
        docstrings: List of lists of sentences.
    """

    name: str
    package: str
    docstrings: list


def docstring_documents(split):
    """Returns the corpus: each module is a document.

    Args:
        split: "train", or "validation": about 5 % of each package, more of small ones.

    Returns:
        List of lists of sentences, in the order of the modules' names.
    """
    return [
        [sentence for docstring in module.docstrings for sentence in docstring]
        for module in _modules_of(split)
    ]


def labelled_docstrings(split):
    """Returns docstrings with the package that each comes from.

    Names of packages are masked, so that the text tells and not the name. The modules are those of
    `docstring_documents`: none is in two splits.

    Args:
        split: "train" or "validation".

    Returns:
        (texts, labels): lists of str of one length. Each class is there equally often, and the
        first rows of any number too, as nearly as can be; their order is arbitrary and fixed.
    """
    of_class = {name: [] for name in CLASSES}
    for module in _modules_of(split):
        if module.package in of_class:
            texts = (_masked(" ".join(docstring)) for docstring in module.docstrings)
            of_class[module.package] += [t for t in texts if t.count(" ") >= _SHORTEST_LABELLED - 1]
    classes = _present_classes()
    size = min(len(of_class[name]) for name in classes)
    chosen = [sorted(of_class[name], key=_digest)[:size] for name in classes]
    texts = [text for texts in zip(*chosen, strict=True) for text in texts]
    return texts, list(classes) * size


def fingerprint():
    """Returns a hash of which Python files there are, and of how they are read."""
    here = Path(__file__).parent
    code = [here / "docstrings.py", here / "docstring_files.py", here / "docstring_text.py"]
    code.append(here.parent.parent / "text" / "sentences.py")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in code))
    for module, path in find_modules():
        stat = os.stat(path)
        digest.update(f"{module} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@functools.cache
def read_modules():
    """Returns all modules with a docstring in English, near-duplicates left out."""
    found = find_modules()
    docstrings = read_docstrings([path for _, path in found], available_cores())
    return tuple(_without_duplicates(
        Module(name, package_of(path, name), texts)
        for (name, path), texts in zip(found, docstrings, strict=True)
    ))


def _modules_of(split):
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}. Received: split={split}")
    validation = _validation_names()
    return [
        module for module in read_modules() if (module.name in validation) == (split != "train")
    ]


@functools.cache
def _validation_names():
    """Chooses modules by a hash of their names, of each package its share."""
    packages = {}
    for module in read_modules():
        packages.setdefault(module.package, []).append(module)
    names = set()
    for package, modules in packages.items():
        total = sum(len(module.docstrings) for module in modules)
        share = total * _VALIDATION_SHARE
        if package in CLASSES:
            share = max(share, min(total / 4, _VALIDATION_DOCSTRINGS))
        for module in sorted(modules, key=lambda module: _digest(module.name)):
            # A module that would take a small package's share many times over is for training.
            if len(module.docstrings) <= 1.5 * share:
                names.add(module.name)
                share -= len(module.docstrings)
            if share <= 0:
                break
    return names


def _present_classes():
    sizes = Counter()
    for module in read_modules():
        sizes[module.package] += len(module.docstrings)
    return sorted(name for name in CLASSES if sizes[name] >= _SMALLEST_CLASS)


def _without_duplicates(modules):
    beginnings = set()
    repeats = Counter()
    different = []
    for module in modules:
        docstrings = []
        for sentences in module.docstrings:
            beginning = " ".join(_words(" ".join(sentences))[:_WORDS_COMPARED])
            if beginning in beginnings:
                continue
            beginnings.add(beginning)
            kept = []
            for sentence in sentences:
                key = " ".join(_words(sentence))
                repeats[key] += 1
                if repeats[key] <= _SENTENCE_REPEATS:
                    kept.append(sentence)
            if kept:
                docstrings.append(kept)
        if docstrings:
            different.append(Module(module.name, module.package, docstrings))
    return different


def _words(text):
    return re.sub(r"[\W_]+", " ", re.sub(r"\d+", "0", text.lower())).split()


def _masked(text):
    return " ".join(_ALONE.sub("package", _BEFORE_DOT.sub("", text)).split())


def _digest(text):
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
