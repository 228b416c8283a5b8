"""Target tokens a second of a Transformer of random weights, beside other libraries.

    make bench-env
    python -m benchmarks.decoding --check

Every library decodes to the same length, whatever the tokens: one encoder pass and --length steps,
with a cache of keys and values. The size is that of the paper's base model.
"""

import sys

from absl import app, flags

from benchmarks.turns import Contender, compare_best, in_turn, python_of, running, spread

FLAGS = flags.FLAGS
flags.DEFINE_list("beams", ["1", "4"], "Hypotheses; 1: greedy.")
flags.DEFINE_integer("rows", 32, "Of a batch.")
flags.DEFINE_integer("source", 32, "Tokens of a source.")
flags.DEFINE_list("lengths", ["32", "64"], "Tokens of a target.")
flags.DEFINE_integer("vocabulary", 32_000, "Tokens.")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 4.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, "Exit with 1 if ours is not twice as fast as the faster other.")

OURS = "keras-attn", "keras-attn, XLA"
LIBRARIES = {  # environment, module, whether the target counts it
    **dict.fromkeys(OURS, (None, "ours", False)),
    "transformers, Marian": ("transformers", "hugging_face", True),
    "KerasHub, BART": ("keras-hub", "keras_hub", True),
    "KerasHub, BART, XLA": ("keras-hub", "keras_hub", True),
    "CTranslate2": ("transformers", "ctranslate2", False),
}
TARGET = 2.0


def main(_):
    missed = []
    for beams in map(int, FLAGS.beams):
        for length in map(int, FLAGS.lengths):
            ratio = compare(beams, length)
            if ratio is not None and ratio < TARGET:
                missed.append(f"{ratio:.2f} times, {beams} beams, {length} tokens")
    if missed:
        print(f"below {TARGET} times the faster:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(beams, length):
    """Prints a table; returns how much faster ours is than the faster of those that count."""
    options = {"layers": 6, "width": 512, "heads": 8, "vocabulary": FLAGS.vocabulary,
               "rows": FLAGS.rows, "source": FLAGS.source, "length": length, "beams": beams}
    contenders = []
    for name, (folder, module, _) in LIBRARIES.items():
        if python := python_of(name, FLAGS.environments, folder):
            contenders.append(Contender(
                name, python, f"benchmarks.contenders.decoding.{module}",
                {**options, "xla": name.endswith("XLA")}))
    with running(contenders):
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
    print(f"\n{FLAGS.rows} rows, {FLAGS.source} source tokens, {length} target tokens, "
          f"{'greedy' if beams == 1 else f'{beams} beams'}")
    for name, times in found.items():
        print(f"{name:24}{spread([FLAGS.rows * length / t for t in times]):>32} tokens/s",
              flush=True)
    others = [name for name, (_, _, counts) in LIBRARIES.items() if counts and name in found]
    if not others:
        return None
    return compare_best(found, OURS, others)


if __name__ == "__main__":
    app.run(main)
