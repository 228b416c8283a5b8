"""Classifies texts, or answers questions, with a finetuned workdir.

    python -m finetune.predict --workdir=runs/sst2 --text='a gripping film'
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.tsv --output=labels.tsv
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.jsonl --output=-

Files hold the columns that the model was trained on (other columns are
ignored; a .txt file holds one text a line), or those of GLUE's test files if it
was trained on a GLUE task. The output has one row for each row of the input, in
its order: label, then the probability of each class. It is TSV, CSV or JSONL,
as its name ends; TSV on the terminal.

    python -m finetune.predict --workdir=runs/squad --text=QUESTION --text_pair=PASSAGE
    python -m finetune.predict --workdir=runs/squad --input=questions.json --output=answers.json

A model of reading comprehension takes files of SQuAD, with or without answers. A .json file gets
{id: answer}, as SQuAD's scripts take it; a .jsonl file and the terminal an object a question, with
answer, score, start and end in the passage, and how much "no answer" scores above it.
"""

from absl import flags

from keras_attn.errors import UserError
from keras_attn.jobs.command_line import define_reading_flags, run_command


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of a finetuning run.")
    flags.DEFINE_multi_string("text", None, "A text to classify, or a question; may be given "
                              "several times.")
    flags.DEFINE_multi_string("text_pair", None, "Its second text, for a model of pairs, or its "
                              "passage.")
    flags.DEFINE_string("input", None, "TSV, CSV, JSONL, Parquet or text file, SQuAD's JSON, or "
                        "a glob.")
    flags.DEFINE_string("output", "-", "File to write (.tsv, .csv, .jsonl; answers: .json, "
                        ".jsonl), or - for the terminal.")
    define_reading_flags(["tsv", "csv", "jsonl", "parquet", "lines", "label_text"])


def main():
    from keras_attn.jobs.predicting import predict_file, predict_texts

    values = flags.FLAGS
    if values.input and values.text:
        raise UserError("Either --text or --input is needed. Received: both")
    if values.input:
        predict_file(values.workdir, values.input, values.output, values.batch_size,
                     format=values.format, text=values.text_column,
                     text_pair=values.text_pair_column, on_bad_text=values.on_bad_text,
                     encoding=values.encoding)
    else:
        predict_texts(values.workdir, values.text, values.text_pair, values.output)


def command():
    """Entry point of `python -m finetune.predict` and `keras-attn-predict`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
