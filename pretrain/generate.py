"""Generates continuations of prompts with a language model.

    python -m pretrain.generate --workdir=runs/gpt2 --prompt='It was a dark night'
    python -m pretrain.generate --workdir=runs/gpt2 --prompt='It was' --temperature=0
    python -m pretrain.generate --workdir=runs/gpt2 --input=prompts.txt --output=texts.jsonl

Samples tokens by default. --temperature=0 is greedy decoding, which does not accept --top_k,
--top_p or --seed; --beam is beam search, which does not accept --temperature either. Results are
reproducible: only another --seed gives other samples. A line of dashes follows each printed text.
--output contains one JSON line per prompt: a list of objects with `text`, `continuation`,
`log_probability` and `finished`, which is false if the maximum length was reached.
"""

from absl import flags

from keras_attn.cli.command_line import define_engine, define_precision, run_command
from keras_attn.errors import UserError

OPTIONS = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "beam",
    "length_penalty",
    "nbest",
    "min_tokens",
    "no_repeat",
    "memory_length",
    "batch_size",
    "precision",
)


def define_flags():
    flags.DEFINE_string(
        "workdir",
        None,
        "Working directory of a causal or permutation language model.",
        required=True,
    )
    flags.DEFINE_multi_string(
        "prompt", None, "Beginning of the text; if unset, the text is generated from scratch."
    )
    flags.DEFINE_string(
        "input",
        None,
        "Text file with one prompt per line, or - for standard input, instead of --prompt.",
    )
    flags.DEFINE_string("output", "-", "Output file (.jsonl), or - for standard output.")
    flags.DEFINE_integer(
        "max_tokens",
        None,
        "Maximum number of new tokens; if unset, 64, or as many as fit into the model's positions.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "temperature",
        1.0,
        "Sampling temperature; 0: greedy decoding; defaults to 1.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "top_k", None, "Sample from the k most likely tokens; if unset, all.", lower_bound=1
    )
    flags.DEFINE_float(
        "top_p",
        0.9,
        "Nucleus sampling: sample from the most likely tokens with "
        "this total probability; 1: all; defaults to 0.9.",
    )
    flags.DEFINE_integer(
        "seed", 0, "Random seed of sampling, of which 32 bits are used; defaults to 0."
    )
    flags.DEFINE_integer(
        "beam", None, "Beam size of a beam search, instead of sampling.", lower_bound=1
    )
    flags.DEFINE_float(
        "length_penalty",
        0.0,
        "Length penalty of the beam search; higher values favor longer texts; defaults to 0.",
    )
    flags.DEFINE_integer("nbest", 1, "Number of texts per prompt; defaults to 1.", lower_bound=1)
    flags.DEFINE_integer(
        "min_tokens",
        0,
        "Minimum number of new tokens, up to --max_tokens; defaults to 0.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "no_repeat",
        0,
        "Size of n-grams that may not occur twice, including "
        "those of the prompt; 0: no restriction.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "memory_length",
        None,
        "Number of preceding tokens whose hidden states each step reuses, for models with memory; "
        "0: each step recomputes the whole row; if unset, as in training.",
        lower_bound=0,
    )
    flags.DEFINE_integer("batch_size", 16, "Batch size, in texts; defaults to 16.", lower_bound=1)
    define_precision()
    define_engine()


def main():
    from keras_attn.inference.generate_files import generate_texts

    values = flags.FLAGS
    if values.input and values.prompt:
        raise UserError("--prompt and --input cannot be combined. Received: both")
    generate_texts(
        values.workdir,
        values.input or values.prompt or [""],
        values.output,
        **{name: values[name].value for name in OPTIONS},
    )


def command():
    """Entry point of `python -m pretrain.generate` and `keras-attn-generate`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
