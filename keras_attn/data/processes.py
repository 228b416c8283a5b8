"""Python subprocesses and threads.

Unlike multiprocessing, the subprocesses do not import the main module of the caller. So they work
from scripts without a main guard, from standard input and in notebooks.
"""

import os
import subprocess
import sys
from multiprocessing.pool import ThreadPool

# More than the cores, as the threads wait for files, possibly remote ones.
_THREADS = 16


def available_cores():
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(function, items):
    """Returns `list(map(function, items))`, run in several threads: for functions that wait for
    files.
    """
    with ThreadPool(_THREADS) as pool:
        return pool.map(function, items, chunksize=1)


def start_python(module, **environment):
    """Starts `python -m module` with text pipes to its standard input and from its standard output.

    Args:
        module: Name of a module that this process can import.
        **environment: Environment variables to set.

    Returns:
        A subprocess.Popen.
    """
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
