"""Keeps what is freed for the next step; C's library would give large blocks back at once."""

import ctypes
import os

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory():
    """Lets this process reuse its memory instead of asking the system for it in every step.

    A training step takes and frees hundreds of megabytes. Blocks that are mapped one by one, and
    the heaps of threads, go back when they are freed, and the next step has to wait until the
    system has cleared every page of them again. So: no such blocks, one heap, never trimmed.
    Numbers do not change. Measured on 2 cores; where many threads wait for the one heap, give
    other settings of malloc in the environment: then, or without glibc, nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    asked = "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in os.environ
    )
    if mallopt is None or asked:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, -1)
    mallopt(_TOP_PAD, 2**26)
    mallopt(_ARENA_MAX, 1)
