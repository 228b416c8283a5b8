"""Target tokens a second of a Transformer of random weights, beside other libraries.

    make bench-env
    python -m benchmarks.decoding --check

Every library decodes to the same length, whatever the tokens: one encoder pass and --length steps,
with a cache of keys and values. The size is that of the paper's base model. Each library is tried
in each of its modes, then the best of each is timed in turn.
"""

import sys

from absl import app, flags

from benchmarks.turns import Library, compare_libraries, left_out

FLAGS = flags.FLAGS
flags.DEFINE_list("beams", ["1", "4"], "Hypotheses; 1: greedy.")
flags.DEFINE_integer("rows", 32, "Of a batch.")
flags.DEFINE_integer("source", 32, "Tokens of a source.")
flags.DEFINE_list("lengths", ["32", "64"], "Tokens of a target.")
flags.DEFINE_integer("vocabulary", 32_000, "Tokens.")
flags.DEFINE_list("modes", None, "Try only these, of plain, xla, bf16, xla+bf16.")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 4.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, "Exit with 1 if ours is not twice as fast as the faster other, "
                  "or the flags leave something out.")

OURS = "keras-attn"
MODULES = "benchmarks.contenders.decoding."
COUNT = [Library("transformers, Marian", "transformers", f"{MODULES}hugging_face", ("", "bf16")),
         Library("KerasHub, BART", "keras-hub", f"{MODULES}keras_hub", ("xla", "xla+bf16"))]
# KerasHub without XLA took longer in every table; XLA on CPUs is slow at products in bf16.
LIBRARIES = [Library(OURS, None, f"{MODULES}ours", ("", "xla", "bf16")), *COUNT,
             Library("CTranslate2", "transformers", f"{MODULES}ctranslate2", ("",))]
TARGET = 2.0


def main(_):
    missed = []
    for beams in map(int, FLAGS.beams):
        for length in map(int, FLAGS.lengths):
            missed += compare(beams, length)
    if FLAGS.check:
        missed += ["--modes leaves out some"] if FLAGS.modes else []
        missed += left_out(FLAGS, beams=["1", "4"], lengths=["32", "64"])
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(beams, length):
    """Prints a table; returns what misses the target, in words."""
    options = {"layers": 6, "width": 512, "heads": 8, "vocabulary": FLAGS.vocabulary,
               "rows": FLAGS.rows, "source": FLAGS.source, "length": length, "beams": beams}
    said = (f"{FLAGS.rows} rows, {FLAGS.source} source tokens, {length} target tokens, "
            f"{'greedy' if beams == 1 else f'{beams} beams'}")
    return compare_libraries(said, LIBRARIES, OURS, [one.name for one in COUNT], options,
                             FLAGS.rows * length, TARGET, FLAGS)


if __name__ == "__main__":
    app.run(main)
