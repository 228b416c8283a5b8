"""Files that commands write their results to."""

import contextlib
import os

import tensorflow as tf

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import is_stream
from keras_attn.errors import UserError, first_line
from keras_attn.io.atomic_write import atomic_path
from keras_attn.io.terminal import standard_output
from keras_attn.io.unfinished_outputs import unfinished_output
from keras_attn.registry import FAMILIES
from keras_attn.workdir import member_files

# Files of a run, and those of other libraries besides the ones that families name.
_RUN_FILES = {"config.json", "results.json", "settings.json", "metrics.jsonl", "report.html"}
_LIBRARY_FILES = {
    "encoder.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "metadata.json",
    "model.safetensors.index.json",
}


@contextlib.contextmanager
def opened(output, endings, binary=(), flag="--output", inputs=(), workdir=None):
    """Opens the output, before the work whose results it will hold.

    A file appears under its name once it is complete. Pipes and devices are written directly, and
    all text is UTF-8.

    Args:
        output: A file, or `-` for standard output.
        endings: What its name may end in.
        binary: Those of them that hold bytes.
        flag: What errors call it.
        inputs: Sources that the command reads, as `find_files` takes them; None among them is
            ignored.
        workdir: Folder of the model, whose own files are not replaced.

    Raises:
        UserError: If the name ends in something else, the file is one of the inputs or of the
            model, or it cannot be written.
    """
    if output == "-":
        stream = standard_output()
        if stream is None:
            raise UserError(f"Standard output is closed. Give {flag} a file. Received: {flag}=-")
        yield stream
        return
    streamed = is_stream(output)
    if not (streamed or output.endswith(endings)) or tf.io.gfile.isdir(output):
        raise UserError(
            f"{flag} must be a file that ends in {', '.join(endings)}, or -. Received: {output}"
        )
    check_output(output, inputs, workdir, flag)
    mode = "wb" if output.endswith(tuple(binary)) else "w"
    if streamed:
        with open(output, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        return
    path = os.path.realpath(output) if os.path.islink(output) else output
    with contextlib.ExitStack() as stack:
        try:
            # Two commands with the same output write different files; the last to end replaces the
            # other.
            temporary = stack.enter_context(unfinished_output(path))
            stack.enter_context(atomic_path(path, temporary))
            file = stack.enter_context(tf.io.gfile.GFile(temporary, mode))
            file.write(b"" if "b" in mode else "")  # makes the file
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"{flag} must be a file that can be written. "
                f"Received: {output} ({first_line(error)})"
            ) from error
        yield file


def check_output(output, inputs, workdir=None, flag="--output"):
    """Checks that writing a file replaces neither an input nor a file of the model.

    Args:
        output, inputs, workdir, flag: As those of `opened`.

    Raises:
        UserError: If it would, also through links and other spellings of the path.
    """
    for source in inputs:
        if (
            source
            and not is_stream(source)
            and any(_same(output, path) for path in find_files(source, tfds=True))
        ):
            raise UserError(
                f"{flag} must be another file than the input, which it would replace. "
                f"Received: {flag}={output}, input {source}"
            )
    # Through a link, too: what it points to would stay, but the name would be lost.
    for path in (output, os.path.realpath(output)) if workdir else ():
        folder, name = os.path.split(path)
        if name in _model_files() and _same(folder or ".", workdir):
            raise UserError(
                f"{flag} must not be a file of the model. Choose another name. "
                f"Received: {flag}={output}"
            )


def _model_files():
    """Names of the files that a model is read from, in a workdir or another library's folder."""
    identifying = (FAMILIES.fields(name).config_files for name in FAMILIES)
    return _RUN_FILES.union(_LIBRARY_FILES, member_files(), *identifying)


def _same(first, second):
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):  # one does not exist, or is on another filesystem
        return first == second
