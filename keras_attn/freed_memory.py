"""Settings of malloc that reuse freed memory instead of returning it to the system."""

import ctypes
import os

# Constants of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory():
    """Makes this process reuse freed memory in the next training step.

    A training step allocates and frees hundreds of megabytes. By default, glibc returns
    memory-mapped blocks and the heaps of threads to the system, which must clear every page before
    the next step can use it. This function disables memory-mapped blocks, thread heaps and
    trimming; numerical results do not change. The benefit was measured on 2 cores. With many
    threads, a single heap may be slower; if the environment contains settings of malloc, or
    without glibc, nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    configured = "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") for name in os.environ
    )
    if mallopt is None or configured:
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, -1)
    mallopt(_TOP_PAD, 2**26)
    mallopt(_ARENA_MAX, 1)
