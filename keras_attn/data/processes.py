"""Python processes of our own.

Unlike multiprocessing they need nothing of the caller's main module, so they work from a script
without a main guard, from standard input and in a notebook.
"""

import os
import subprocess
import sys


def available_cores():
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
