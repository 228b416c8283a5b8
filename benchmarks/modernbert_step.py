"""Time and memory of a masked-LM training step of ModernBERT, here and in transformers.

    make bench-env
    python -m benchmarks.modernbert_step --sizes=mini --lengths=512,2048 --modes=bf16,compile+bf16

Rows of full length, 30 % of the tokens masked, no dropout, AdamW. Each library is tried in each of
its modes; then the fastest ones are measured in turn, from the batch to updated weights. Memory is
the peak of the process minus its memory before the model was made.
"""

import statistics

from absl import app, flags

from benchmarks.interleaved import (
    Library,
    compare_best,
    counts_of,
    median_range,
    reports_in_turn,
    running,
)
from keras_attn.models import ModernBertEncoder

OURS, PEER = "keras-attn", "transformers"
MODULES = "benchmarks.contenders.modernbert."
LIBRARIES = [
    Library(OURS, None, f"{MODULES}ours", ("", "xla", "bf16", "xla+bf16")),
    Library(
        PEER, "transformers", f"{MODULES}hugging_face", ("", "bf16", "compile", "compile+bf16")
    ),
]

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["mini", "small"], "Model sizes.")
flags.DEFINE_list("lengths", ["128", "512", "2048", "8192"], "Tokens per row.")
flags.DEFINE_integer("tokens", 8192, "Tokens per step.")
flags.DEFINE_list("modes", None, "Try only these modes: plain, xla, bf16, xla+bf16, compile, …")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 4.0, "Approximate seconds per measurement.")


def main(_):
    for size in FLAGS.sizes:
        for length in map(int, FLAGS.lengths):
            compare(size, length)


def compare(size, length):
    """Prints tokens per second and memory of each library, and the speedup of ours."""
    rows = max(1, FLAGS.tokens // length)
    shape = ModernBertEncoder.SIZES[size]
    options = {"size": size, "shape": shape, "rows": rows, "length": length}
    options["masked"] = length * 30 // 100
    modes = {
        one: one.best_mode(FLAGS.environments, options, FLAGS.modes, FLAGS.seconds)
        for one in LIBRARIES
    }
    modes = {one: mode for one, mode in modes.items() if mode is not None}
    started = [one.start(FLAGS.environments, mode, options) for one, mode in modes.items()]
    with running(started) as contenders:
        found = reports_in_turn(contenders, FLAGS.turns, counts_of(contenders, FLAGS.seconds))
    print(f"\n{size}: {rows} x {length} tokens, {options['masked']} masked")
    for one, mode in modes.items():
        reports = found[one.name]
        rates = median_range([rows * length / report["seconds"] for report in reports])
        memory = statistics.median(report["memory"] for report in reports) / 1e6
        print(f"{one.name + ' ' + (mode or 'fp32'):32}{rates:>32} tokens/s {memory:8,.0f} MB")
    if len(modes) == 2:
        times = {name: [report["seconds"] for report in found[name]] for name in found}
        compare_best(times, [OURS], [PEER])


if __name__ == "__main__":
    app.run(main)
