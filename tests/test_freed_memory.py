"""Freed memory is reused."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")

# Page faults, without huge pages, while 40 blocks of 64 MB are filled one after the other.
FAULTS = """
import ctypes, resource, sys
libc = ctypes.CDLL(None)
libc.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int,
                                                               ctypes.c_size_t]
if sys.argv[1] == "reused":
    from keras_attn.freed_memory import keep_freed_memory
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    block = libc.malloc(2**26)
    libc.memset(block, 1, 2**26)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 2**26 // os.sysconf("SC_PAGE_SIZE")


def faults(*arguments, **environment):
    environment_without_malloc = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**environment_without_malloc, **environment},
    )
    return int(done.stdout)


@pytest.mark.thorough
def test_the_pages_of_a_large_block_are_cleared_once_and_not_in_every_step():
    assert faults("as it is") > 30 * PAGES
    assert faults("reused") < 3 * PAGES


@pytest.mark.thorough
def test_settings_of_the_environment_are_not_changed():
    assert faults("reused", MALLOC_MMAP_THRESHOLD_="1000000") > 30 * PAGES
    assert faults("reused", GLIBC_TUNABLES="glibc.malloc.arena_max=2") > 30 * PAGES
