"""What the commands share: flags of a run, configs by path or name, errors in one line."""

import errno
import itertools
import math
import os
import re
import runpy
import signal
import sys
import traceback
from pathlib import Path

from absl import flags
from ml_collections import ConfigDict, config_flags

from keras_attn.defaults import ENDS, fields, meaning, select_task
from keras_attn.errors import PRECISIONS, UserError, first_line, nearest
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.io.paths import check_path, scheme_of
from keras_attn.io.terminal import discard_streams, flush_streams, prepare_streams
from keras_attn.quiet import import_quietly
from keras_attn.registry import ENGINES

# Fields that memory grows with and that a resumed run must keep.
_SIZES = ("train.batch_size", "train.batch_tokens", "data.length")
# Flags whose values are no paths, whatever they look like.
_TEXTS = {"text", "text_pair", "prompt", "beam_options"}
_OF_STORAGE = re.compile(r"HTTP|curl|credential|bucket|://")  # in errors of a file system
# Errors of files that are the machine's or the user's, besides permission and space.
_OF_THE_MACHINE = (errno.EROFS, errno.EDQUOT, errno.EIO, errno.ENAMETOOLONG, errno.ELOOP,
                   errno.ENOTDIR, errno.EISDIR, errno.EMFILE, errno.ENFILE, errno.EFBIG,
                   errno.ESTALE, errno.ENXIO)
_PARTS = ("workdir", "pretrained", "data", "model", "train", "eval", "checkpoint")
HELP_FLAGS = {"--help", "-h", "-help", "--helpshort", "--helpfull"}
NO_VALUE = ("none", "None")


def define_run_flags():
    """Defines the flags that pretraining and finetuning share."""
    flags.DEFINE_string("workdir", None, "Folder of the run; the same command resumes it.")
    flags.DEFINE_string("pretrained", None, "Weights to start from, as --config.pretrained: a "
                        "workdir, a folder of another library, or hf:NAME.")
    flags.DEFINE_bool("dry_run", False, "Only print what the run will cost: parameters, memory, "
                      "steps, tokens, time.")
    flags.DEFINE_enum("engine", "tensorflow", list(ENGINES),
                      "Backend that runs the training steps; default: tensorflow.")
    for name, field in _engine_fields().options.items():
        _define_flag(name, field)


def _define_flag(name, field):
    """Defines the flag of a `Field`."""
    unset = isinstance(field.default, type)
    type_, default = (field.default, None) if unset else (type(field.default), field.default)
    if field.choices:
        flags.DEFINE_enum(name, default, list(field.choices), field.help)
        return
    define = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float,
              str: flags.DEFINE_string}[type_]
    bound = {"lower_bound": field.low} if type_ in (int, float) else {}
    define(name, default, field.help, **bound)


def _engine_fields():
    """Returns the module `fields` of the engine that --engine names.

    It is read before the other flags, which depend on it, and before Keras is imported.
    """
    _, name = _take_flag(sys.argv, "engine", "tensorflow")
    return ENGINES.fields(name if name in ENGINES else "tensorflow")  # the flag refuses others


def define_reading_flags(formats):
    """Defines how a finetuned model reads a file: as it was trained, unless told otherwise."""
    flags.DEFINE_enum("format", None, formats,
                      "Of the file; default: as its name ends, else that of the training data.")
    flags.DEFINE_string("text_column", None, "Column of the text; default: that of training.")
    flags.DEFINE_string("text_pair_column", None, "Column of the second text, likewise.")
    flags.DEFINE_string("encoding", None, "Of the file; default: that of training.")
    flags.DEFINE_enum("on_bad_text", None, ["error", "skip"],
                      "What to do with rows that cannot be read; default: as in training.")
    define_max_line()
    flags.DEFINE_integer("batch_size", 64, "Rows worked on together.", lower_bound=1)


def define_max_line():
    """Flag of the commands that read files."""
    flags.DEFINE_integer("max_line", None, "Bytes of the longest line or record; longer ones are "
                         "bad text. Default: as in training, or 16 MiB.", lower_bound=1)


def define_precision():
    """Flag of the commands that make text."""
    flags.DEFINE_enum("precision", "float32", PRECISIONS, "Of weights and products; with bfloat16 "
                      "weights take half the memory, and processors that multiply it less time.")


def run_command(main, usage, default_config=None):
    """Parses the command line, calls `main()` and exits with its status.

    A mistake of the user's ends in one line and status 2, a signal in the
    usual 128 + number, and a bug of ours in a traceback.

    Args:
        main: Function without arguments, called after flags are parsed.
        usage: Text for --help.
        default_config: Name of the packaged config that holds without
            --config; None if the command takes no config.
    """
    os.environ["KERAS_BACKEND"] = _engine_fields().backend
    prepare_streams()
    try:
        if sys.flags.optimize > 1:
            raise UserError("tensorflow-text needs docstrings, which Python's -OO removes. Set "
                            "PYTHONOPTIMIZE to 1 or leave it out. "
                            f"Received: PYTHONOPTIMIZE={sys.flags.optimize}")
        _parse(usage, default_config)
        keep_freed_memory()
        import_quietly()
        for name, path in _paths():
            check_path(path, name)
        main()
        flush_streams()
    except UserError as error:
        _fail(str(error))
    except flags.Error as error:
        _fail(_of_flags(error))
    except BrokenPipeError:  # whoever read the output has enough: `… | head`
        discard_streams()
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        _fail_if_known(error)
        raise


def run_options():
    """The flags of `define_run_flags` as arguments of `pretrain` and `finetune`."""
    names = "config", "workdir", "pretrained", "dry_run", "engine", *_engine_fields().options
    return {name: flags.FLAGS[name].value for name in names}


def _of_flags(error):
    """What absl says about the flags, with the names that were probably meant."""
    if isinstance(error, flags.UnrecognizedFlagError):
        return f"Unknown flag --{error.flagname}{_nearest_flag(error.flagname)}"
    message = " ".join(str(error).split())
    wrong = re.match(r"flag --[\w.]+=(.*): value should be one of <(.*)>$", message)
    return message + (nearest(wrong[1], wrong[2].split("|")) if wrong else "")


def _nearest_flag(name):
    """The flag, or the field of the config, that was probably meant."""
    names = [flag.name for flag in _own_flags() if not flag.name.startswith("config.")]
    if "config" in flags.FLAGS:
        names += (f"config.{field}" for field, _ in fields(flags.FLAGS["config"].value))
    return nearest(name, names, prefix="--")


def _own_flags():
    """The flags that are no library's."""
    return [flag for module, defined in flags.FLAGS.flags_by_module_dict().items()
            if not module.startswith(("absl", "tensorflow")) for flag in defined]


def _fail(message):
    line = " ".join(message.split())
    print(f"error: {line}", file=sys.stderr, flush=True)
    # Threads that serve other workers would keep a failed process from ending.
    if _engine_fields().in_cluster():
        os._exit(2)
    sys.exit(2)


def _fail_if_known(error):
    """Ends the command if the error is the machine's or a peer's, not a bug."""
    name, text = type(error).__name__, str(error)
    if name == "Stopped":
        print(text, file=sys.stderr, flush=True)
        sys.exit(128 + error.signal_number)
    number = getattr(error, "errno", None)
    if number == errno.ENOSPC or "No space left" in text:
        _fail("Free disk space is needed; what was saved before is whole. "
              f"Received: {_first(text)}")
    if isinstance(error, MemoryError) or name == "ResourceExhaustedError" or (
            text.startswith("RESOURCE_EXHAUSTED")):
        told = next((line for line in text.splitlines() if "memory" in line.lower()
                     or "OOM" in line), text)
        _fail(f"Out of memory. {_of_less_memory()}Received: {_first(told)}")
    if isinstance(error, PermissionError) or name == "PermissionDeniedError":
        _fail(f"Permission is needed. Received: {_first(text)}")
    remote = [(name, path) for name, path in _paths() if scheme_of(path)]
    if remote and type(error).__module__.startswith("tensorflow") and _OF_STORAGE.search(text):
        told = ", ".join(f"{name}={path}" for name, path in remote)
        _fail(f"Cannot reach the file system of {told}; check its name, the network and the "
              f"credentials, or use local files. {_first(text)}")
    if number in _OF_THE_MACHINE or any(os.strerror(one) in text for one in _OF_THE_MACHINE):
        _fail(f"A file cannot be read or written. Received: {_first(text)}")
    lost = _engine_fields().lost_worker(error)
    if lost is not None:
        _fail("Another worker was lost; start all workers again with the same command to go on "
              f"from the last checkpoint. Received: {_first(lost)}")


def _paths():
    """Yields (flag, value) of all flags and fields whose value may be a path."""
    values = flags.FLAGS
    texts = _TEXTS.union(_engine_fields().options)
    given = {f"--{name}": values[name].value for name in values if name not in texts}
    if "config" in values:
        given |= {f"--config.{name}": value for name, value in fields(values.config)}
    for name, value in given.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            for path in one.split(",") if isinstance(one, str) else ():
                yield name, path


def _of_less_memory():
    """What lowers the memory that this command takes; also of a resumed run, if it is one."""
    values = flags.FLAGS
    if "batch_size" in values:
        return "Lower --batch_size. "
    if "config" not in values:
        return ""
    train, known = values.config.train, dict(fields(values.config))
    can_split = (train.accumulate or 1) < (train.get("batch_size") or math.inf)
    ways = ["raise --config.train.accumulate (the same steps in smaller parts)"] * can_split
    ways += ["set --config.train.remat=True (more time)"] * (not train.get("remat"))
    split = "".join(f"{way}, or " for way in ways)
    sizes = " or ".join(f"--config.{name}" for name in _SIZES if name in known)
    return (f"Resume with the same command and {split}lower --config.eval.batch_size; "
            f"or start a new --workdir with a lower {sizes}. ")


def _first(text):
    return text.strip().splitlines()[0][:300] if text.strip() else "no details"


def _parse(usage, default_config):
    arguments, config, unset = list(sys.argv), None, []
    if default_config:
        arguments, name = _take_flag(arguments, "config", default_config)
        config = load_config(find_config(name))
        if (task := _named_task(arguments)) and "task" in config.data:
            select_task(config, task)
    if HELP_FLAGS.intersection(arguments):
        _print_help(usage, config)
        sys.exit(0)
    if config is not None:
        arguments, unset = _check_fields(arguments, config)
        _define_config(config, arguments)
    rest = flags.FLAGS(arguments)[1:]
    if rest:
        name, has_value, _ = rest[0].partition("=")
        raise UserError(f"Only flags are taken. Received: {' '.join(rest)}"
                        + (_nearest_flag(name) if has_value else ""))
    for path in unset:
        _unset(flags.FLAGS.config, path)


def _define_config(config, arguments):
    # ml_collections finds the fields to override in sys.argv.
    original, sys.argv = sys.argv, arguments
    try:
        config_flags.DEFINE_config_dict("config", config)
    finally:
        sys.argv = original


def _print_help(usage, config):
    print(usage.strip() + "\n\nFlags:\n")
    for flag in _own_flags():
        print(f"  --{flag.name}  {flag.help}")
    if config is not None:
        print(f"  --config  A path, or one of {', '.join(config_names())}.\n\n"
              "Fields of this config, their values and meanings:\n")
        for name, value in fields(config):
            line = f"  --config.{name}" + ("" if value is None else f"={value}")
            print(f"{line:40}  {meaning(config, name)}".rstrip())


def config_folder():
    """Folder of the packaged configs, in a checkout or an installation."""
    here = Path(__file__).resolve().parent.parent
    packaged = here / "configs"
    return packaged if packaged.is_dir() else here.parent / "configs"


def config_names():
    """Names of the packaged configs."""
    return sorted(path.stem for path in config_folder().glob("*.py") if path.stem != "__init__")


def find_config(name):
    """Path of a config file given as a path or as the name of a packaged one."""
    if name.endswith(".py") and os.path.isfile(name):
        return name
    stem = Path(name).stem
    packaged = config_folder() / f"{stem}.py"
    # `configs/bert_mini.py` also works where the package is installed.
    if packaged.is_file() and Path(name).parent.as_posix() in (".", "configs"):
        return packaged
    raise UserError(
        f"--config must be a .py file, or one of {', '.join(config_names())}. "
        f"Received: config={name}{nearest(stem, config_names())}"
    )


def load_config(path):
    """Runs `get_config()` of a config file."""
    try:
        made = runpy.run_path(str(path)).get("get_config")
        config = made() if made else None
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else path
        raise UserError(f"The config file cannot be run. Received: {place}: "
                        f"{type(error).__name__}: {first_line(error)}") from error
    if made is None:
        raise UserError("--config must be a Python file with a function get_config(). "
                        f"Received: {path}, without it")
    if not isinstance(config, ConfigDict):
        raise UserError("get_config() must return a ConfigDict. "
                        f"Received: {path}: {type(config).__name__}")
    missing = [name for name in _PARTS if name not in config]
    if missing:
        raise UserError(f"A config must have {', '.join(_PARTS)}, as those that functions of "
                        f"keras_attn.defaults return. Received: {path}, without {missing[0]}")
    return config


def _take_flag(arguments, flag, default):
    """Splits `--flag=VALUE` or `--flag VALUE` from the other arguments."""
    kept, value = [], default
    remaining = iter(arguments)
    for argument in remaining:
        name, has_value, given = argument.partition("=")
        if name not in (f"--{flag}", f"-{flag}"):
            kept.append(argument)
        else:
            value = given if has_value else next(remaining, "")
    return kept, value


def _named_task(arguments):
    """Value of the last `--config.data.task`; None without it."""
    named = None
    for argument, following in itertools.zip_longest(arguments, arguments[1:]):
        name, has_value, value = argument.partition("=")
        if name.lstrip("-") == "config.data.task":
            named = value if has_value else following
    return None if named in NO_VALUE else named


def _check_fields(arguments, config):
    """Checks the names of the fields; takes out those that are to be None.

    ml_collections answers a wrong name with a traceback, and cannot parse
    "None" for a number. An end of the run takes the place of the config's.
    """
    known = dict(fields(config))
    kept, last = [], {}  # whether the last value of a field is None
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        name, has_value, value = argument.lstrip("-").partition("=")
        path = name.removeprefix("config.")
        if argument.startswith("-") and path != name:
            if path not in known and not _negated(path, known):
                raise UserError(f"Unknown config field. Received: --{name}"
                                + nearest(path, known, prefix="--config."))
            if not has_value and arguments and arguments[0] in NO_VALUE:
                value = arguments.pop(0)
                argument = f"{argument}={value}"
            # "none" in place of a text is a text: sacrebleu has a tokenizer of this name.
            is_text = value == "none" and isinstance(known.get(path), str)
            last[path] = value in NO_VALUE and not is_text
            if last[path]:
                continue
        kept.append(argument)
    ends = {f"train.{name}" for name in ENDS} & known.keys()
    if any(last.get(path) is False for path in ends):
        last = dict.fromkeys(ends, True) | last
    return kept, [path for path, is_none in last.items() if is_none]


def _negated(path, known):
    *parents, name = path.split(".")
    positive = ".".join([*parents, name.removeprefix("no")])
    return name.startswith("no") and isinstance(known.get(positive), bool)


def _unset(config, path):
    *parents, name = path.split(".")
    for parent in parents:
        config = config[parent]
    config[name] = None
