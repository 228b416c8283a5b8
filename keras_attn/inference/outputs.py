"""Output files of commands."""

import contextlib
import os

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import is_stream
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_path
from keras_attn.io.terminal import standard_output
from keras_attn.io.unfinished_outputs import unfinished_output
from keras_attn.registry import FAMILIES
from keras_attn.workdir import member_files

# Files of a run, and files of other libraries that no family names.
_RUN_FILES = {"config.json", "results.json", "settings.json", "metrics.jsonl", "report.html"}
_LIBRARY_FILES = {
    "encoder.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "metadata.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "model.safetensors.index.json",
}


@contextlib.contextmanager
def opened(output, endings, binary=(), flag="--output", inputs=(), workdir=None):
    """Opens an output file atomically.

    It is opened before the work, so that errors are found early, and appears under its name once it
    is complete. Pipes and devices are written directly. Text is UTF-8.

    Args:
        output: A file, or `-` for standard output.
        endings: Valid file name endings.
        binary: Those of the endings whose files contain bytes.
        flag: Name of the flag for messages.
        inputs: Sources that the command reads; see `find_files`. None entries are ignored.
        workdir: Folder of the model, whose files must not be replaced.

    Raises:
        UserError: If the file name ending is not valid, the file is one of the inputs or a file of
            the model, or it cannot be written.
    """
    if output == "-":
        stream = standard_output()
        if stream is None:
            raise UserError(f"Standard output is closed. Set {flag} to a file. Received: {flag}=-")
        yield stream
        return
    streamed = is_stream(output)
    check_ending(output, endings, flag)
    check_output(output, inputs, workdir, flag)
    mode = "wb" if output.endswith(tuple(binary)) else "w"
    if streamed:
        with open(output, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        return
    path = os.path.realpath(output) if os.path.islink(output) else output
    with contextlib.ExitStack() as stack:
        try:
            # Commands with the same output write different temporary files; the last one replaces
            # the output of the others.
            temporary = stack.enter_context(unfinished_output(path))
            stack.enter_context(atomic_path(path, temporary))
            file = stack.enter_context(gfile.open_file(temporary, mode))
            file.write(b"" if "b" in mode else "")  # creates the file
        except OSError as error:
            raise UserError(f"Cannot write {flag}={output}: {reason_of(error)}") from error
        yield file


def check_ending(output, endings, flag="--output"):
    """Checks the name of an output file.

    Args:
        output, endings, flag: See `opened`.

    Raises:
        UserError: If it has none of the endings, or names a folder.
    """
    valid = output == "-" or is_stream(output) or output.endswith(tuple(endings))
    if not valid or gfile.isdir(output):
        raise UserError(
            f"{flag} must be a file that ends in {', '.join(endings)}, or -. Received: {output}"
        )


def check_output(output, inputs, workdir=None, flag="--output"):
    """Checks that writing a file replaces neither an input nor a file of the model.

    Args:
        output, inputs, workdir, flag: See `opened`.

    Raises:
        UserError: If it would, also through links or equivalent paths.
    """
    for source in inputs:
        if (
            source
            and not is_stream(source)
            and any(_same(output, path) for path in find_files(source, tfds=True))
        ):
            raise UserError(
                f"{flag} would replace the input. Choose another file. "
                f"Received: {flag}={output}, input {source}"
            )
    # Both the path and the target of a link: writing would replace the link or the target.
    for path in (output, os.path.realpath(output)) if workdir else ():
        folder, name = os.path.split(path)
        if name in _model_files() and _same(folder or ".", workdir):
            raise UserError(
                f"{flag} must not be a file of the model. Choose another name. "
                f"Received: {flag}={output}"
            )


def _model_files():
    """Returns the names of the files of a model, in a workdir or a checkpoint folder."""
    identifying = (FAMILIES.fields(name).config_files for name in FAMILIES)
    return _RUN_FILES.union(_LIBRARY_FILES, member_files(), *identifying)


def _same(first, second):
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one does not exist, or is on another filesystem
        return first == second
