"""Predicting: texts or rows of files in, predictions out, in the same order."""

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import load
from keras_attn.inference.options import check_options
from keras_attn.inference.outputs import opened
from keras_attn.registry import TASKS

OUTPUTS = (".tsv", ".csv", ".jsonl", ".json")


def predict_texts(workdir, texts, text_pairs=None, output="-", **options):
    """Writes a row for each text; options as those of `predict_file`."""
    if not texts:
        raise UserError("--text or --input is needed. Received: neither")
    if text_pairs and len(text_pairs) != len(texts):
        raise UserError(
            "As many --text_pair as --text are needed. "
            f"Received: {counted(len(texts), 'text')}, "
            f"{counted(len(text_pairs), 'pair')}"
        )
    with opened(output, OUTPUTS, workdir=workdir) as file:
        model = load(workdir)
        given = check_options(model.task, "predict", options)
        TASKS[model.task].predict_texts(model, texts, text_pairs, file, output, given)
    warn_of_cut_texts(model)


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
        workdir: Folder of a finetuning run.
        source: TSV, CSV, JSONL, Parquet or .txt file, a glob, or `-` for standard input.
        output: File that ends in one of `OUTPUTS`; `-` for standard output, as TSV.
        batch_size: Rows worked on together.
        format: See `iterate_rows`. None: what the name of a file tells, or told in
            training; that of the training data where it tells none.
        text, text_pair, on_bad_text, encoding, max_line: See `iterate_rows`. None: as in
            training; also for the test files of a GLUE task.
        **options: Of the task, `TaskFields.options`.
    """
    reading = {
        "format": format,
        "text": text,
        "text_pair": text_pair,
        "on_bad_text": on_bad_text,
        "encoding": encoding,
        "max_line": max_line,
    }
    with opened(output, OUTPUTS, inputs=(source,), workdir=workdir) as file:
        model = load(workdir)
        given = check_options(model.task, "predict", options)
        TASKS[model.task].predict_file(model, source, file, output, batch_size, reading, given)
    warn_of_cut_texts(model)
