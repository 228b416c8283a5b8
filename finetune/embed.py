"""Turns texts into vectors.

    python -m finetune.embed --workdir=runs/mini --text='a gripping film'
    python -m finetune.embed --workdir=runs/mini --input=reviews.tsv --text_column=review \\
        --output=vectors.npy
    zcat texts.txt.gz | python -m finetune.embed --workdir=runs/mini --input=- --format=lines

The output has one row for each text, in order: an array of float32 in a .npy file, or a list of
numbers a line in a .jsonl file and on the terminal.
"""

from absl import flags

from keras_attn.cli.command_line import define_max_line, run_command
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string("workdir", None, "A workdir, or a folder of another library.")
    flags.DEFINE_multi_string("text", None, "A text; may be given several times.")
    flags.DEFINE_string("input", None, "TSV, CSV, JSONL, Parquet or text file, a glob, or - for "
                        "standard input.")
    flags.DEFINE_string("output", "-", "File to write (.npy, .jsonl), or - for the terminal.")
    flags.DEFINE_string("text_column", "text", "Column of the text.")
    flags.DEFINE_enum("format", None, ["tsv", "quoted_tsv", "csv", "jsonl", "parquet", "lines"],
                      "Of the file; default: as its name ends.")
    flags.DEFINE_string("encoding", "utf-8", "Encoding of the file.")
    flags.DEFINE_enum("on_bad_text", "error", ["error", "skip"],
                      "What to do with rows that cannot be read; skip leaves them out.")
    define_max_line()
    flags.DEFINE_enum("pooling", "mean", ["mean", "cls"],
                      "mean of the vectors of all tokens, or that of the first.")
    flags.DEFINE_bool("lowercase", None, "Whether text is lower-cased, if the folder does not say.")
    flags.DEFINE_integer("batch_size", 64, "Rows worked on together.", lower_bound=1)


def main():
    from keras_attn.inference.embed_files import embed_file, embed_texts

    values = flags.FLAGS
    if bool(values.input) == bool(values.text):
        raise UserError("Either --text or --input is needed. "
                        f"Received: {'both' if values.text else 'neither'}")
    options = {"output": values.output, "pooling": values.pooling, "lowercase": values.lowercase,
               "batch_size": values.batch_size}
    if values.input:
        reading = {"format": values.format, "encoding": values.encoding,
                   "on_bad_text": values.on_bad_text, "max_line": values.max_line}
        embed_file(values.workdir, values.input, values.text_column, **options, **reading)
    else:
        embed_texts(values.workdir, values.text, **options)


def command():
    """Entry point of `python -m finetune.embed` and `keras-attn-embed`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
