"""The docstring corpus: English text that is part of every installation."""

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
_VALIDATION_FRACTION = 0.05
# Minimum number for each class, enough to measure accuracy, but at most a quarter of its package.
_VALIDATION_DOCSTRINGS = 150
# Docstrings that start with the same words count as near-duplicates.
_WORDS_COMPARED = 16
# Maximum number of repetitions of boilerplate such as "Defaults to None."
_SENTENCE_REPEATS = 3
_MIN_LABELLED_WORDS = 8
_MIN_CLASS_DOCSTRINGS = 100

# The classes: packages with many docstrings that are part of every installation, with the names and
# aliases that would reveal them.
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
        name: Path relative to the standard library or the installed packages.
        package: Its package, the first folder, or `STANDARD_LIBRARY`.
        docstrings: List of lists of sentences.
    """

    name: str
    package: str
    docstrings: list


def docstring_documents(split):
    """Returns the corpus, with one document per module.

    Args:
        split: "train", or "validation": about 5 % of each package, more for small ones.

    Returns:
        List of lists of sentences, sorted by module name.
    """
    return [
        [sentence for docstring in module.docstrings for sentence in docstring]
        for module in _split_modules(split)
    ]


def labelled_docstrings(split):
    """Returns docstrings labelled with their packages.

    Package names are masked, so that the text must be classified by its content. The modules are
    those of `docstring_documents`; the splits share no module.

    Args:
        split: "train" or "validation".

    Returns:
        (texts, labels): lists of str of equal length. The classes are balanced, as are any first
        rows as far as possible; the order is arbitrary but deterministic.
    """
    of_class = {name: [] for name in CLASSES}
    for module in _split_modules(split):
        if module.package in of_class:
            texts = (_mask_names(" ".join(docstring)) for docstring in module.docstrings)
            of_class[module.package] += [
                text for text in texts if text.count(" ") >= _MIN_LABELLED_WORDS - 1
            ]
    classes = _present_classes()
    size = min(len(of_class[name]) for name in classes)
    chosen = [sorted(of_class[name], key=_digest)[:size] for name in classes]
    texts = [text for texts in zip(*chosen, strict=True) for text in texts]
    return texts, list(classes) * size


def fingerprint():
    """Returns a hash of the Python files of this installation and of the code that reads them."""
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
    """Returns all modules that have a docstring in English, without near-duplicates."""
    found = find_modules()
    docstrings = read_docstrings([path for _, path in found], available_cores())
    return tuple(
        _without_duplicates(
            Module(name, package_of(path, name), texts)
            for (name, path), texts in zip(found, docstrings, strict=True)
        )
    )


def _split_modules(split):
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}. Received: split={split}")
    validation = _validation_names()
    return [
        module for module in read_modules() if (module.name in validation) == (split != "train")
    ]


@functools.cache
def _validation_names():
    """Selects a fraction of the modules of each package, by a hash of their names."""
    packages = {}
    for module in read_modules():
        packages.setdefault(module.package, []).append(module)
    names = set()
    for package, modules in packages.items():
        total = sum(len(module.docstrings) for module in modules)
        share = total * _VALIDATION_FRACTION
        if package in CLASSES:
            share = max(share, min(total / 4, _VALIDATION_DOCSTRINGS))
        for module in sorted(modules, key=lambda module: _digest(module.name)):
            # Modules that far exceed the remaining fraction of a small package go to training.
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
    return sorted(name for name in CLASSES if sizes[name] >= _MIN_CLASS_DOCSTRINGS)


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


def _mask_names(text):
    return " ".join(_ALONE.sub("package", _BEFORE_DOT.sub("", text)).split())


def _digest(text):
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
