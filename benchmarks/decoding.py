"""Decoding throughput of a randomly initialized Transformer, compared with other libraries.

    make bench-env
    python -m benchmarks.decoding --check

Every library decodes to the same length, whatever the tokens: one encoder pass and --length steps
with a key-value cache. The model has the size of the paper's base model. Each library is tried in
each of its modes; then the best modes are measured in turn.
"""

import sys

from absl import app, flags

from benchmarks.interleaved import Library, compare_libraries, left_out

FLAGS = flags.FLAGS
flags.DEFINE_list("beams", ["1", "4"], "Beam sizes; 1 is greedy decoding.")
flags.DEFINE_integer("rows", 32, "Batch size.")
flags.DEFINE_integer("source", 32, "Source length.")
flags.DEFINE_list("lengths", ["32", "64"], "Target lengths.")
flags.DEFINE_integer("vocabulary", 32_000, "Vocabulary size.")
flags.DEFINE_list("modes", None, "Try only these modes: plain, xla, bf16, xla+bf16.")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 4.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    "Exit with 1 if the speedup over the faster baseline is below 2 "
    "or the flags leave something out.",
)

OURS = "keras-attn"
MODULES = "benchmarks.contenders.decoding."
BASELINES = [
    Library("transformers, Marian", "transformers", f"{MODULES}hugging_face", ("", "bf16")),
    Library("KerasHub, BART", "keras-hub", f"{MODULES}keras_hub", ("xla", "xla+bf16")),
]
# KerasHub is slower without XLA in every table. XLA on CPUs has no fast bf16 matrix product.
LIBRARIES = [
    Library(OURS, None, f"{MODULES}ours", ("", "xla", "bf16")),
    *BASELINES,
    Library("CTranslate2", "transformers", f"{MODULES}ctranslate2", ("",)),
]
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
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(beams, length):
    """Prints a table and returns descriptions of the missed targets."""
    options = {
        "layers": 6,
        "hidden_dim": 512,
        "heads": 8,
        "vocabulary": FLAGS.vocabulary,
        "rows": FLAGS.rows,
        "source": FLAGS.source,
        "length": length,
        "beams": beams,
    }
    title = (
        f"{FLAGS.rows} examples, {FLAGS.source} source tokens, {length} target tokens, "
        f"{'greedy' if beams == 1 else f'{beams} beams'}"
    )
    return compare_libraries(
        title,
        LIBRARIES,
        OURS,
        [one.name for one in BASELINES],
        options,
        FLAGS.rows * length,
        TARGET,
        FLAGS,
    )


if __name__ == "__main__":
    app.run(main)
