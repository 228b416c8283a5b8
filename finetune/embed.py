"""Computes embedding vectors of texts.

    python -m finetune.embed --workdir=runs/mini --text='a gripping film'
    python -m finetune.embed --workdir=runs/mini --input=reviews.tsv --text_column=review \\
        --output=vectors.npy
    zcat texts.txt.gz | python -m finetune.embed --workdir=runs/mini --input=- --format=lines

A model of sentence-transformers keeps its pooling, dense layers, normalization, prompts and maximum
length. The output has one row per text, in the same order: a float32 array in a .npy file, or one
list of numbers per line in a .jsonl file and on the terminal, or the column `embedding` of a
.parquet file.
"""

from absl import flags

from keras_attn.cli.command_line import define_engine, define_max_line, run_command
from keras_attn.declarations import TABLES
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string(
        "workdir", None, "A workdir, or a checkpoint of another library.", required=True
    )
    flags.DEFINE_multi_string("text", None, "Text to embed.")
    flags.DEFINE_string(
        "input", None, "TSV, CSV, JSONL, Parquet or text file, a glob, or - for standard input."
    )
    flags.DEFINE_string(
        "output", "-", "Output file (.npy, .parquet, .jsonl), or - for the terminal."
    )
    flags.DEFINE_string("text_column", "text", "Text column.")
    flags.DEFINE_enum(
        "format",
        None,
        list(TABLES),
        "File format; if unset, detected from the file name.",
    )
    flags.DEFINE_string("encoding", "utf-8", "Character encoding of the file.")
    flags.DEFINE_enum(
        "on_bad_text",
        "error",
        ["error", "skip"],
        "How to handle rows that cannot be read; skip skips and counts them.",
    )
    define_max_line()
    flags.DEFINE_enum(
        "pooling",
        None,
        ["mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"],
        "Pooling of the token vectors, such as mean or cls (the first token), without dense layers "
        "and normalization; if unset, as the model specifies, else mean.",
    )
    flags.DEFINE_string(
        "prompt",
        None,
        "Name of a prompt of the model, or a text to put before each text, such as 'query: '; if "
        "unset, the default of the model.",
    )
    flags.DEFINE_bool(
        "lowercase", None, "Whether to lower-case text, if the checkpoint does not specify it."
    )
    flags.DEFINE_integer("batch_size", 64, "Batch size, in texts.", lower_bound=1)
    define_engine()


def main():
    from keras_attn.inference.embed_files import embed_file, embed_texts

    values = flags.FLAGS
    if bool(values.input) == bool(values.text):
        raise UserError(
            f"Give either --text or --input. Received: {'both' if values.text else 'neither'}"
        )
    options = {
        "output": values.output,
        "pooling": values.pooling,
        "prompt": values.prompt,
        "lowercase": values.lowercase,
        "batch_size": values.batch_size,
    }
    if values.input:
        reading = {
            "format": values.format,
            "encoding": values.encoding,
            "on_bad_text": values.on_bad_text,
            "max_line": values.max_line,
        }
        embed_file(values.workdir, values.input, values.text_column, **options, **reading)
    else:
        embed_texts(values.workdir, values.text, **options)


def command():
    """Entry point of `python -m finetune.embed` and `keras-attn-embed`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
