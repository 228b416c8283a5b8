"""Reads the docstrings of the Python files of this installation with `ast`, without importing them.

Files are parsed by several processes, `python -m keras_attn.data.sources.docstring_files`.
"""

import ast
import gc
import json
import os
import sys
import sysconfig
import warnings
from concurrent.futures import ThreadPoolExecutor

from keras_attn.data.processes import start_python
from keras_attn.data.sources.docstring_text import docstring_sentences

STANDARD_LIBRARY = "the standard library"
_SKIPPED_FOLDERS = frozenset(
    ["__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test", "node_modules"]
)
# This package is skipped, so that its own docstrings do not affect the corpus.
_SKIPPED_PACKAGES = ("keras_attn",)
_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (ast.If, ast.Try, ast.With)


def find_modules():
    """Finds the Python files of the standard library and of the installed packages.

    Returns:
        List of (module, path), sorted by module: `json/decoder.py` of the standard library,
        `numpy/ma/core.py` of an installed package.
    """
    paths = sysconfig.get_paths()
    roots = dict.fromkeys(
        os.path.realpath(paths[name]) for name in ("stdlib", "platlib", "purelib")
    )
    modules = {}
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
            within = os.path.relpath(folder, root).replace(os.sep, "/").removeprefix(".")
            if within.split("/")[0] in _SKIPPED_PACKAGES:
                folders.clear()
                continue
            for name in files:
                path = os.path.join(folder, name)
                if name.endswith(".py") and os.path.isfile(path):  # not a broken link
                    modules.setdefault(f"{within}/{name}".lstrip("/"), path)
    return sorted(modules.items())


def package_of(path, module):
    """Returns the package of a file: its first folder, or `STANDARD_LIBRARY`."""
    within = os.path.realpath(path).startswith(
        os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
    )
    installed = {"site-packages", "dist-packages"} & set(os.path.realpath(path).split(os.sep))
    if within and not installed:
        return STANDARD_LIBRARY
    return module.split("/")[0].removesuffix(".py")


def read_docstrings(paths, processes):
    """Reads the docstrings of files in parallel.

    Args:
        paths: Python files.
        processes: Number of processes.

    Returns:
        For each file, the list of its docstrings in order, each a list of English sentences.
        Docstrings without such sentences are left out; a file that cannot be parsed has none.

    Raises:
        RuntimeError: If a process fails.
    """
    if processes <= 1:
        return [_read_file(path) for path in paths]
    parts = [paths[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        answers = list(pool.map(_run_process, parts))
    results = [None] * len(paths)
    for start, answer in enumerate(answers):
        results[start::processes] = answer
    return results


def _run_process(paths):
    process = start_python(__name__)
    answer, _ = process.communicate(json.dumps(paths))
    if process.returncode:
        raise RuntimeError(f"Reading docstrings failed with status {process.returncode}.")
    return json.loads(answer)


def _read_file(path):
    try:
        with open(path, "rb") as file:
            source = file.read()
        if b'"""' not in source and b"'''" not in source:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    docstrings = (ast.get_docstring(node, clean=False) for node in _documented(tree))
    return [
        sentences
        for docstring in docstrings
        if docstring and (sentences := docstring_sentences(docstring))
    ]


def _documented(tree):
    """Yields the nodes that can have a docstring, in the order of the source."""
    if isinstance(tree, (ast.Module, *_NODES)):
        yield tree
    for node in tree.body:
        if isinstance(node, (*_NODES, *_BLOCKS)):
            yield from _documented(node)


if __name__ == "__main__":
    gc.disable()  # syntax trees trigger it all the time, but contain no cycles
    json.dump([_read_file(path) for path in json.load(sys.stdin)], sys.stdout)
