"""Translates text, a line at a time.

    python -m finetune.translate --workdir=runs/de < in.txt > out.txt
    python -m finetune.translate --workdir=runs/de --input=in.txt --output=out.txt --beam=8
    python -m finetune.translate --workdir=runs/de --nbest=3 --scores < in.txt

The output has one line for each line of the input, in its order; empty lines stay empty. With
--nbest, --scores or --alignments it is JSON, a line for each line: a list of translations, best
first, with `text`, and if asked for `score`, `log_probability` and `finished` (else it was cut),
and `alignments`: of each token of the translation the token of the source that it attended to most.
"""

from absl import flags

from keras_attn.cli.command_line import define_max_line, define_precision, run_command


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of the run of a translator.", required=True)
    flags.DEFINE_string("input", "-", "Text file, a sentence a line, or - for standard input.")
    flags.DEFINE_string("output", "-", "File to write (.txt, .jsonl), or - for standard output.")
    flags.DEFINE_integer("beam", None, "Hypotheses of the beam search; 1: greedy; without: "
                         "eval.beam of the run.", lower_bound=1)
    flags.DEFINE_integer("nbest", None, "Translations of each line, --beam at most.",
                         lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "More favours longer translations; without: that "
                       "of the run.")
    flags.DEFINE_bool("scores", False, "Tell scores, too.")
    flags.DEFINE_bool("alignments", False, "Tell what each token attended to, too.")
    flags.DEFINE_enum("on_bad_text", "error", ["error", "skip"],
                      "What to do with a line that is no UTF-8 or too long; skip leaves its "
                      "translation empty.")
    flags.DEFINE_integer("batch_size", 32, "Lines worked on together.", lower_bound=1)
    define_max_line()
    define_precision()


def main():
    from keras_attn.inference.translate_files import translate_file

    values = flags.FLAGS
    translate_file(values.workdir, values.input, values.output, beam=values.beam,
                   nbest=values.nbest, length_penalty=values.length_penalty,
                   with_scores=values.scores, alignments=values.alignments,
                   on_bad_text=values.on_bad_text, batch_size=values.batch_size,
                   precision=values.precision, max_line=values.max_line)


def command():
    """Entry point of `python -m finetune.translate` and `keras-attn-translate`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
