"""Python processes of our own, and threads.

Unlike multiprocessing the processes need nothing of the caller's main module, so they work from a
script without a main guard, from standard input and in a notebook.
"""

import os
import subprocess
import sys
from multiprocessing.pool import ThreadPool

# More than cores: they wait for files, which may be far away.
_THREADS = 16


def available_cores():
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_threads(function, items):
    """`list(map(function, items))`, many at a time: for what waits for files."""
    with ThreadPool(_THREADS) as pool:
        return pool.map(function, items, chunksize=1)


def start_python(module, **environment):
    """Starts `python -m module` with pipes for text to its input and from its output.

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
