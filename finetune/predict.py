"""Predicts with a finetuned model.

    python -m finetune.predict --workdir=runs/sst2 --text='a gripping film'
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.tsv --output=labels.tsv
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.jsonl --output=-

Input files have the columns that the model was trained on, or the columns of GLUE's test files if
it was trained on a GLUE task; a .txt file has one text per line. The output has one row per input
row, in the same order: the columns of --keep_columns=id,date, the label, then the probability of
each class. Its format is TSV, CSV or JSONL by the file name, and TSV on the terminal. With
--on_bad_text=skip, or if training skipped, unreadable rows are skipped, and each output row begins
with its file and line (the record number in Parquet, TFDS and a JSON list).

    python -m finetune.predict --workdir=runs/squad --text=QUESTION --text_pair=PASSAGE
    python -m finetune.predict --workdir=runs/squad --input=questions.json --output=answers.json

    python -m finetune.predict --workdir=runs/sst2 --text='a gripping film' --attention=page.html

writes an HTML page of the attention weights of each layer and head, instead of predictions. For a
question, --text_pair is the passage, of which the page shows the window with the answer.

Question answering reads SQuAD files, with or without answers. A .json output file contains
{id: answer}, the format of SQuAD's evaluation script. A .jsonl file and the terminal get one object
per question, with answer, score, start and end in the passage, and the margin of "no answer".
"""

from absl import flags

from keras_attn.cli.command_line import define_engine, define_reading_flags, run_command
from keras_attn.cli.task_options import (
    define_task_flags,
    given_options,
    task_formats,
    task_outputs,
)
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string("workdir", None, "Working directory of a finetuning run.", required=True)
    flags.DEFINE_multi_string("text", None, "Text to classify, or a question.")
    flags.DEFINE_multi_string(
        "text_pair", None, "Second text of a pair, or the passage of a question."
    )
    flags.DEFINE_string(
        "input",
        None,
        "TSV, CSV, JSONL, Parquet or text file, SQuAD JSON, a "
        "glob, or - for standard input, with --format.",
    )
    flags.DEFINE_string(
        "output",
        "-",
        f"Output file ({', '.join(task_outputs())}, depending on the task), or - for the terminal.",
    )
    flags.DEFINE_string(
        "attention",
        None,
        "HTML file to write: attention weights of each layer and head for one --text.",
    )
    define_reading_flags(task_formats("predict"))
    define_task_flags("predict")
    define_engine()


def main():
    from keras_attn.inference.predict_files import predict_file, predict_texts

    values = flags.FLAGS
    options = given_options("predict", values)
    if values.input and values.text:
        raise UserError("Give either --text or --input. Received: both")
    if values.attention:
        return show_attention(values)
    if values.input:
        predict_file(
            values.workdir,
            values.input,
            values.output,
            values.batch_size,
            format=values.format,
            text=values.text_column,
            text_pair=values.text_pair_column,
            on_bad_text=values.on_bad_text,
            encoding=values.encoding,
            max_line=values.max_line,
            **options,
        )
    else:
        predict_texts(values.workdir, values.text, values.text_pair, values.output, **options)


def show_attention(values):
    from keras_attn.inference.attention_files import write_attention_page

    write_attention_page(values.workdir, values.attention, values.text, values.text_pair)


def command():
    """Entry point of `python -m finetune.predict` and `keras-attn-predict`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
