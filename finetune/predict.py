"""Classifies texts with a finetuned workdir.

    python -m finetune.predict --workdir=runs/sst2 --text='a gripping film'
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.tsv --output=labels.tsv
    python -m finetune.predict --workdir=runs/sst2 --input=reviews.jsonl --output=-

Files hold the columns that the model was trained on (other columns are
ignored; a .txt file holds one text a line). The output has one row for each
row of the input, in its order: label, then the probability of each class. It
is JSONL or CSV if its name ends so, else TSV.
"""

from absl import flags

from keras_attn.errors import UserError
from keras_attn.jobs.command_line import run_command


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of a finetuning run.")
    flags.DEFINE_multi_string("text", None, "A text to classify; may be given several times.")
    flags.DEFINE_multi_string("text_pair", None, "Its second text, for a model of pairs.")
    flags.DEFINE_string("input", None, "TSV, CSV, JSONL or text file, or a glob.")
    flags.DEFINE_string("output", "-", "File to write, or - for the terminal.")
    flags.DEFINE_integer("batch_size", 64, "Rows worked on together.", lower_bound=1)


def main():
    from keras_attn.jobs.predicting import predict_file, predict_texts

    values = flags.FLAGS
    if values.input and values.text:
        raise UserError("Either --text or --input is needed. Received: both")
    if values.input:
        predict_file(values.workdir, values.input, values.output, values.batch_size)
    else:
        predict_texts(values.workdir, values.text, values.text_pair, values.output)


def command():
    """Entry point of `python -m finetune.predict` and `keras-attn-predict`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
