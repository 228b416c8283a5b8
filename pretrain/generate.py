"""Goes on with a text.

    python -m pretrain.generate --workdir=runs/gpt2 --prompt='It was a dark night'
    python -m pretrain.generate --workdir=runs/gpt2 --prompt='It was' --temperature=0
    python -m pretrain.generate --workdir=runs/gpt2 --input=prompts.txt --output=texts.jsonl

Tokens are drawn, unless --temperature is 0, which takes neither --top_k nor --top_p nor --seed, or
--beam is given, which does not take --temperature either. The same command gives the same text;
another --seed draws another. After each text that is printed comes a line of dashes. --output has a
line of JSON for each prompt: a list of `text`, `continuation`, `log_probability` and `finished`
(else it was cut).
"""

from absl import flags

from keras_attn.cli.command_line import define_precision, run_command
from keras_attn.errors import UserError

OPTIONS = ("max_tokens", "temperature", "top_k", "top_p", "seed", "beam", "length_penalty",
           "nbest", "min_tokens", "no_repeat", "batch_size", "precision")


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of the run of a language model.", required=True)
    flags.DEFINE_multi_string("prompt", None, "How a text begins; may be given several times. "
                              "Without: a new text.")
    flags.DEFINE_string("input", None, "Text file of a prompt a line, or - for standard input, in "
                        "place of --prompt.")
    flags.DEFINE_string("output", "-", "File to write (.jsonl), or - for standard output.")
    flags.DEFINE_integer("max_tokens", None, "Tokens to add at most; default: 64, or as many as "
                         "the positions of the model leave.", lower_bound=1)
    flags.DEFINE_float("temperature", 1.0, "Lower: likelier tokens; 0: the likeliest always; "
                       "default: 1.", lower_bound=0.0)
    flags.DEFINE_integer("top_k", None, "Draw from so many of the likeliest tokens; default: all.",
                         lower_bound=1)
    flags.DEFINE_float("top_p", 0.9, "Draw from the likeliest tokens that together have this "
                       "probability; default: 0.9; 1: all.")
    flags.DEFINE_integer("seed", 0, "Of what is drawn; 32 bits of it count. The same one draws the "
                         "same text; default: 0.")
    flags.DEFINE_integer("beam", None, "Hypotheses of a beam search, in place of drawing.",
                         lower_bound=1)
    flags.DEFINE_float("length_penalty", 0.0, "Of --beam: more favours longer texts.")
    flags.DEFINE_integer("nbest", 1, "Texts for each prompt; default: 1.", lower_bound=1)
    flags.DEFINE_integer("min_tokens", 0, "Tokens to add at least, up to --max_tokens.",
                         lower_bound=0)
    flags.DEFINE_integer("no_repeat", 0, "No sequence of so many tokens may come twice, those "
                         "of the prompt counted.", lower_bound=0)
    flags.DEFINE_integer("batch_size", 16, "Texts worked on together; default: 16.",
                         lower_bound=1)
    define_precision()


def main():
    from keras_attn.inference.generate_files import generate_texts

    values = flags.FLAGS
    if values.input and values.prompt:
        raise UserError("Either --prompt or --input is taken. Received: both")
    generate_texts(values.workdir, values.input or values.prompt or [""], values.output,
                   **{name: values[name].value for name in OPTIONS})


def command():
    """Entry point of `python -m pretrain.generate` and `keras-attn-generate`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
