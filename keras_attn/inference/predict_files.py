"""Prediction for texts and files."""

import contextlib

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import load, task_of_workdir
from keras_attn.inference.options import check_options
from keras_attn.inference.outputs import check_ending, opened
from keras_attn.registry import TASKS


def predict_texts(workdir, texts, text_pairs=None, output="-", **options):
    """Writes a row for each text; see `predict_file`."""
    if not texts:
        raise UserError("--text or --input is required. Received: neither")
    if text_pairs and len(text_pairs) != len(texts):
        raise UserError(
            "Each --text requires one --text_pair. "
            f"Received: {counted(len(texts), 'text')}, "
            f"{counted(len(text_pairs), 'pair')}"
        )
    with _loaded(workdir, output, options) as (task, model, given, file):
        task.predict_texts(model, texts, text_pairs, file, output, given)


def predict_file(
    workdir,
    source,
    output="-",
    batch_size=64,
    *,
    format=None,
    text=None,
    text_pair=None,
    on_bad_text=None,
    encoding=None,
    max_line=None,
    **options,
):
    """Writes a row for each row of a file, in constant memory.

    Args:
        workdir: Working directory of a finetuning run.
        source: TSV, CSV, JSONL, Parquet or .txt file, a glob, or `-` for standard input.
        output: File whose name ends in one of `TaskFields.outputs`, such as .tsv or .jsonl; `-`
            for standard output.
        batch_size: Batch size in rows.
        format: See `iterate_rows`. None: detected from the file name, else as in training.
        text, text_pair, on_bad_text, encoding, max_line: See `iterate_rows`. None: as in
            training, or as in the test files of a GLUE task.
        **options: Options of the task; see `TaskFields.options`.
    """
    reading = {
        "format": format,
        "text": text,
        "text_pair": text_pair,
        "on_bad_text": on_bad_text,
        "encoding": encoding,
        "max_line": max_line,
    }
    with _loaded(workdir, output, options, source, format) as (task, model, given, file):
        task.predict_file(model, source, file, output, batch_size, reading, given)


@contextlib.contextmanager
def _loaded(workdir, output, options, source=None, format=None):
    """Opens the output, and yields the task, the loaded model, the set options and the file."""
    task = task_of_workdir(workdir)  # None for a checkpoint of another library
    tasks = [task.name] if task else TASKS
    endings = dict.fromkeys(ending for name in tasks for ending in TASKS.fields(name).outputs)
    with opened(output, tuple(endings), inputs=(source,), workdir=workdir) as file:
        model = load(workdir)
        check_ending(output, TASKS.fields(model.task).outputs)
        given = check_options(model.task, "predict", options, format)
        yield TASKS[model.task], model, given, file
    warn_of_cut_texts(model)
