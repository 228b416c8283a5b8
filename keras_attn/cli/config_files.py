"""Config files: packaged ones by name, others by path, with an argument of `get_config`.

`ml_collections.config_flags` reads files by path only, and shows an error in a file as a traceback.
"""

import inspect
import os
import re
import runpy
import traceback
from pathlib import Path

from ml_collections import ConfigDict

from keras_attn.errors import UserError, first_line, nearest
from keras_attn.registry import TASKS

_SECTIONS = ("workdir", "pretrained", "data", "model", "train", "eval", "checkpoint")


def config_folder():
    """Returns the folder of the packaged configs, in a checkout or an installation."""
    here = Path(__file__).resolve().parent.parent
    packaged = here / "configs"
    return packaged if packaged.is_dir() else here.parent / "configs"


def config_names():
    """Returns the names of the packaged configs."""
    return sorted(path.stem for path in config_folder().glob("*.py") if path.stem != "__init__")


def find_config(name):
    """Finds a config file.

    Args:
        name: Path of a config file or name of a packaged config, with `:` and an argument if its
            `get_config` accepts one: `configs/glue.py:sst2`, `glue:sst2`; or a name in
            `TaskFields.configs`: `sst2`.

    Returns:
        (path, argument): The argument is None if the name does not contain one.
    """
    given, argument = re.fullmatch(r"(.*?\.py|[^:]*)(?::(.*))?", name, re.DOTALL).groups()
    if given.endswith(".py") and os.path.isfile(given):
        return given, argument
    stem, packaged = Path(given).stem, config_folder() / f"{Path(given).stem}.py"
    # `configs/bert_mini.py` also works where the package is installed.
    is_name = Path(given).parent.as_posix() in (".", "configs")
    if is_name and packaged.is_file():
        return packaged, argument
    further = {key: value for task in TASKS for key, value in TASKS.fields(task).configs.items()}
    if is_name and argument is None and stem in further:
        return find_config(further[stem])
    raise UserError(
        f"--config must be a .py file, or one of {', '.join(config_names())}. "
        f"Received: config={name}{nearest(stem, [*config_names(), *further])}"
    )


def load_config(path, argument=None):
    """Returns the result of `get_config()` of a config file, or of `get_config(argument)`."""
    try:
        get_config = runpy.run_path(str(path)).get("get_config")
        arguments = _config_arguments(get_config, path, argument) if get_config else ()
        config = get_config(*arguments) if get_config else None
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise UserError(
            f"Cannot run the config file. Received: {place}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error
    if get_config is None:
        raise UserError(
            "--config must be a Python file that defines get_config(). "
            f"Received: {path}, which does not define it"
        )
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"get_config() must return a ConfigDict. Received: {path}: {type(config).__name__}"
        )
    missing = [name for name in _SECTIONS if name not in config]
    if missing:
        raise UserError(
            f"A config must contain {', '.join(_SECTIONS)}. Start from a function of "
            f"keras_attn.defaults. Received: {path}, without {missing[0]}"
        )
    return config


def _config_arguments(get_config, path, argument):
    """Checks the argument of `--config=PATH:ARGUMENT` against the parameters of `get_config`."""
    parameters = [
        one
        for one in inspect.signature(get_config).parameters.values()
        if one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)
    ]
    if argument is not None and not parameters:
        raise UserError(
            f"get_config() of {path} does not accept an argument. Remove :{argument} from --config"
        )
    required = [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL
    ]
    if argument is None and required:
        raise UserError(
            f"get_config({required[0]}) of {path} requires an argument. "
            f"Append :{required[0].upper()} to --config"
        )
    return () if argument is None else (argument,)
