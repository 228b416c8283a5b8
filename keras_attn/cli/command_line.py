"""Shared code of the commands: flags, config fields, `--help` and exit codes."""

import itertools
import os
import signal
import sys

from absl import flags
from ml_collections import config_flags

from keras_attn.cli.config_files import config_names, find_config, load_config
from keras_attn.cli.engine_flag import engine_fields, take_flag
from keras_attn.cli.failures import (
    exit_if_known,
    exit_in_cluster,
    exit_with_error,
    flag_message,
    nearest_flag,
    own_flags,
    path_values,
)
from keras_attn.cli.field_flags import define_flag
from keras_attn.defaults import ENDS, fields, meaning, select_family, select_task
from keras_attn.errors import PRECISIONS, UserError, nearest
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.io.paths import check_path
from keras_attn.io.terminal import discard_streams, flush_streams, prepare_streams
from keras_attn.registry import DEFAULT_ENGINE, ENGINES
from keras_attn.tensorflow_import import import_tensorflow

HELP_FLAGS = {"--help", "-h", "-help", "--helpshort", "--helpfull"}
NO_VALUE = ("none", "None")
_OTHER_NAMES = {"data.objective": "data.task"}  # of fields on the command line


def define_run_flags():
    """Defines the flags that `pretrain` and `finetune` share."""
    flags.DEFINE_string(
        "workdir", None, "Working directory of the run; the same command resumes the run."
    )
    flags.DEFINE_string(
        "pretrained",
        None,
        "Initial weights, same as --config.pretrained: a "
        "workdir, a checkpoint of another library, or hf:NAME.",
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Only print an estimate of the run: parameters, memory, steps, tokens and time.",
    )
    define_engine("the training steps")
    for name, field in engine_fields().options.items():
        define_flag(name, field)


def define_engine(runs="the model"):
    """Defines --engine, in commands that train or apply a model."""
    flags.DEFINE_enum(
        "engine",
        DEFAULT_ENGINE,
        list(ENGINES),
        f"Backend that runs {runs}; defaults to {DEFAULT_ENGINE}.",
    )


def define_reading_flags(formats):
    """Defines flags for the input files of a finetuned model; unset flags are as in training.

    Args:
        formats: Values of --format.
    """
    flags.DEFINE_enum(
        "format",
        None,
        formats,
        "File format; if unset, detected from the file name, else as in training.",
    )
    flags.DEFINE_string("text_column", None, "Text column; if unset, as in training.")
    flags.DEFINE_string(
        "text_pair_column", None, "Column of the second text; if unset, as in training."
    )
    flags.DEFINE_string(
        "encoding", None, "Character encoding of the file; if unset, as in training."
    )
    flags.DEFINE_enum(
        "on_bad_text",
        None,
        ["error", "skip"],
        "How to handle rows that cannot be read; if unset, as in training.",
    )
    define_max_line("as in training")
    flags.DEFINE_integer("batch_size", 64, "Batch size, in rows.", lower_bound=1)


def define_max_line(default="16 MiB"):
    """Defines --max_line, for commands that read files.

    Args:
        default: Description of the value that an unset flag has.
    """
    flags.DEFINE_integer(
        "max_line",
        None,
        "Maximum size of a line or record in bytes; longer ones "
        f"count as bad text. If unset, {default}.",
        lower_bound=1,
    )


def define_precision():
    """Defines --precision, for commands that generate text."""
    flags.DEFINE_enum(
        "precision",
        "float32",
        PRECISIONS,
        "Precision of weights and matrix "
        "products; bfloat16 halves the memory of the weights, and is faster on "
        "processors with bfloat16 instructions.",
    )


def run_command(main, usage, default_config=None, define_flags=lambda: None):
    """Parses the command line, calls `main()` and exits with its status.

    A user error prints one line and exits with status 2, a signal exits with 128 + its number,
    and a bug prints a traceback.

    Args:
        main: Function without arguments, called after the flags are parsed.
        usage: Text of --help, or a function that returns it.
        default_config: Name of the packaged config that is used without --config; None if the
            command does not use a config.
        define_flags: Function that defines the flags of the command. Its errors are reported like
            those of `main`: flags depend on members, which installed packages may add.
    """
    prepare_streams()
    try:
        define_flags()
        os.environ["KERAS_BACKEND"] = engine_fields().backend
        if sys.flags.optimize > 1:
            raise UserError(
                "Python's -OO is not supported: it removes docstrings, which "
                "tensorflow-text requires. Set PYTHONOPTIMIZE to 1, or unset it. "
                f"Received: PYTHONOPTIMIZE={sys.flags.optimize}"
            )
        _parse(usage, default_config)
        keep_freed_memory()
        import_tensorflow()
        for name, path in path_values():
            check_path(path, name)
        main()
        flush_streams()
    except UserError as error:
        exit_with_error(str(error))
    except flags.Error as error:
        exit_with_error(flag_message(error))
    except BrokenPipeError:  # the reader of the output has closed it, as in `… | head`
        discard_streams()
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        exit_if_known(error)
        exit_in_cluster(error)
        raise


def run_options():
    """Returns the flags of `define_run_flags` as arguments of `pretrain` and `finetune`."""
    names = "config", "workdir", "pretrained", "dry_run", "engine", *engine_fields().options
    return {name: flags.FLAGS[name].value for name in names}


def _parse(usage, default_config):
    arguments, config, unset = list(sys.argv), None, []
    if default_config:
        arguments, name = take_flag(arguments, "config", default_config)
        arguments = [_with_field_name(argument) for argument in arguments]
        config = load_config(*find_config(name))
        if (task := _last_value(arguments, "data.task")) and "task" in config.data:
            select_task(config, task)
        if family := _last_value(arguments, "model.family"):
            select_family(config, family, keep_task=task is not None)
    if HELP_FLAGS.intersection(arguments):
        _print_help(usage, config)
        sys.exit(0)
    if config is not None:
        arguments, unset = _check_fields(arguments, config)
        _define_config(config, arguments)
    try:
        rest = flags.FLAGS(arguments)[1:]
    except ValueError as error:  # a value for the negation of a boolean flag, as in --nodry_run=1
        raise UserError(str(error)) from None
    if rest:
        name, has_value, _ = rest[0].partition("=")
        raise UserError(
            "Positional arguments are not supported; write options as flags. "
            f"Received: {' '.join(rest)}" + (nearest_flag(name) if has_value else "")
        )
    for path in unset:
        _unset(flags.FLAGS.config, path)


def _define_config(config, arguments):
    # ml_collections reads the overridden fields from sys.argv.
    original, sys.argv = sys.argv, arguments
    try:
        config_flags.DEFINE_config_dict("config", config)
    finally:
        sys.argv = original


def _print_help(usage, config):
    text = usage if isinstance(usage, str) else usage()
    print(text.strip() + "\n\nFlags:\n")
    for flag in own_flags():
        print(f"  --{flag.name}  {flag.help}")
    if config is not None:
        print(
            f"  --config  Path of a config file, or one of {', '.join(config_names())}; with "
            ":ARGUMENT if its get_config() accepts an argument, as in glue:sst2.\n\n"
            "Fields of this config, with their values:\n"
        )
        for name, value in fields(config):
            line = f"  --config.{name}" + ("" if value is None else f"={value}")
            print(f"{line:40}  {meaning(config, name)}".rstrip())


def _with_field_name(argument):
    """Returns an argument with the name of a field in place of its other name."""
    name, *rest = argument.partition("=")
    for other, field in _OTHER_NAMES.items():
        if name.lstrip("-") == f"config.{other}":
            return "".join((name.replace(other, field), *rest))
    return argument


def _last_value(arguments, field):
    """Returns the last value of a field on the command line, or None."""
    found = None
    for argument, following in itertools.zip_longest(arguments, arguments[1:]):
        name, has_value, value = argument.partition("=")
        if name.lstrip("-") == f"config.{field}":
            found = value if has_value else following
    return None if found in NO_VALUE else found


def _check_fields(arguments, config):
    """Checks the names of the fields, and removes the arguments that set a field to None.

    ml_collections prints a traceback for an unknown name, and cannot parse "None" for a number.
    A length of the run (steps, epochs or minutes) replaces the one in the config.

    Returns:
        The remaining arguments, and the fields to set to None.
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
                raise UserError(
                    f"Unknown config field. Received: --{name}"
                    + nearest(path, known, prefix="--config.")
                )
            if not has_value and arguments and arguments[0] in NO_VALUE:
                value = arguments.pop(0)
                argument = f"{argument}={value}"
            # "none" for a field with a string value is a string: the name of a sacrebleu tokenizer.
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
