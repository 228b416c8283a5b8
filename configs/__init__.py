"""One experiment per file: `get_config()` returns its config. See `--config` of the commands."""

import sys
from functools import partial
from types import ModuleType

from . import glue

# Each GLUE task used to have its own file: `from keras_attn.configs import sst2` still works.
for _task in glue.GLUE_TASKS:
    _module = ModuleType(f"{__name__}.{_task}", f"`glue.get_config({_task!r})`")
    _module.get_config = partial(glue.get_config, _task)
    globals()[_task] = sys.modules[_module.__name__] = _module
