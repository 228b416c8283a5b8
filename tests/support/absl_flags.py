"""The flags of absl, of which a process has one set."""

import contextlib
import functools

from absl import flags


@contextlib.contextmanager
def new_flags():
    """Removes the flags that are defined inside, and hides those of benchmarks."""
    for flag in _flags_of_benchmarks():
        delattr(flags.FLAGS, flag.name)
    before = set(flags.FLAGS)
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)
        for flag in _flags_of_benchmarks():
            flags.FLAGS[flag.name] = flag
        flags.FLAGS.unparse_flags()


@functools.cache
def _flags_of_benchmarks():
    """Flags, some of them required, of the modules that tests of benchmarks import."""
    modules = flags.FLAGS.flags_by_module_dict()
    return [flag for name in modules if name.startswith("benchmarks") for flag in modules[name]]
