"""Translates text line by line.

    python -m finetune.translate --workdir=runs/de < in.txt > out.txt
    python -m finetune.translate --workdir=runs/de --input=in.txt --output=out.txt --beam=8
    python -m finetune.translate --workdir=runs/de --nbest=3 --scores < in.txt
    python -m finetune.translate --workdir=runs/de --text='a red cat'
    python -m finetune.translate --workdir=runs/de --text='a red cat' --attention=page.html

The output has one line per input line, in the same order; empty lines stay empty. With --nbest,
--scores or --alignments each line is a JSON list of translations, best first, with `text`. --scores
adds `score`, `log_probability` and `finished` (false if the maximum length was reached).
--alignments adds `alignments`: for each token the source token with the highest attention weight.
--attention writes an HTML page instead: the attention of each token of the best translation to the
tokens of the source.
"""

from absl import flags

from keras_attn.cli.command_line import (
    define_engine,
    define_max_line,
    define_precision,
    run_command,
)
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string("workdir", None, "Working directory of a translation model.", required=True)
    flags.DEFINE_string(
        "input", "-", "Text file with one sentence per line, or - for standard input."
    )
    flags.DEFINE_multi_string("text", None, "Text to translate, instead of --input.")
    flags.DEFINE_string("output", "-", "Output file (.txt, .jsonl), or - for standard output.")
    flags.DEFINE_integer(
        "beam",
        None,
        "Beam size; 1: greedy decoding; if unset, eval.beam of the run.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "nbest",
        None,
        "Number of translations per line, at most --beam; if unset, the best one.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "length_penalty",
        None,
        "Length penalty of the beam search; higher values "
        "favor longer translations; if unset, eval.length_penalty of the run.",
    )
    flags.DEFINE_bool("scores", False, "Whether to output scores.")
    flags.DEFINE_bool("alignments", False, "Whether to output alignments from attention weights.")
    flags.DEFINE_string(
        "attention",
        None,
        "HTML file to write: attention of the translation of one --text to its source.",
    )
    flags.DEFINE_enum(
        "on_bad_text",
        "error",
        ["error", "skip"],
        "How to handle lines that are not valid UTF-8 or too long; skip writes an "
        "empty translation.",
    )
    flags.DEFINE_integer("batch_size", 32, "Batch size, in lines.", lower_bound=1)
    define_max_line("as in training")
    define_precision()
    define_engine()


def main():
    from keras_attn.inference.translate_files import translate_file, write_alignment_page

    values = flags.FLAGS
    if values.text and values["input"].present:
        raise UserError("Give either --text or --input. Received: both")
    if values.attention:
        return write_alignment_page(
            values.workdir,
            values.attention,
            values.text,
            beam=values.beam,
            length_penalty=values.length_penalty,
            precision=values.precision,
        )
    translate_file(
        values.workdir,
        values.text or values.input,
        values.output,
        beam=values.beam,
        nbest=values.nbest,
        length_penalty=values.length_penalty,
        with_scores=values.scores,
        alignments=values.alignments,
        on_bad_text=values.on_bad_text,
        batch_size=values.batch_size,
        precision=values.precision,
        max_line=values.max_line,
    )


def command():
    """Entry point of `python -m finetune.translate` and `keras-attn-translate`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
