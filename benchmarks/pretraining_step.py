"""Times one MLM + NSP training step beside other libraries, from the batch to updated weights.

    make bench-env
    python -m benchmarks.pretraining_step --sizes=tiny,small --lengths=128 --dropout=0

First each library is tried in each of its modes, then the best mode of each is timed in turn. The
last column is the ratio of sequences a second, ours to theirs, turn by turn. Useful work is
6 B (12 L D^2 T + 2 L T^2 D + P (D^2 + V D)) FLOP a step, without the logits of words that are not
masked; the peak is that of a product of two matrices of 2,048 rows by TensorFlow, the fastest of
float32, with and without XLA, and bfloat16.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import PRODUCT_ROWS, useful_flops
from benchmarks.turns import Library, in_turn, left_out, running, spread

SIZES = {"tiny": (2, 128, 2, 64), "mini": (4, 256, 4, 32), "small": (4, 512, 8, 16),
         "base": (12, 768, 12, 8)}  # layers, width, heads, rows of 128
OURS, PRODUCT = "keras-attn", "matrix product"
XLA, MODULES = ("", "xla", "bf16", "xla+bf16"), "benchmarks.contenders.pretraining."
LIBRARIES = {one.name: one for one in (
    Library(OURS, None, f"{MODULES}ours", XLA),
    Library("transformers", "transformers", f"{MODULES}hugging_face",
            ("", "bf16", "compile", "compile+bf16")),
    Library("KerasHub", "keras-hub", f"{MODULES}keras_hub", XLA),
    Library("Model Garden", "model-garden", f"{MODULES}model_garden", XLA),
    Library(PRODUCT, None, f"{MODULES}product", ("", "xla", "bf16")),
)}
PEERS, DROPOUT = [name for name in LIBRARIES if name != PRODUCT], ["0", "0.1"]
TARGET, TARGET_SHARE = 1.5, 0.6  # --check, at length 128

flags.DEFINE_list("sizes", list(SIZES), "Of tiny, mini, small, base.")
flags.DEFINE_list("lengths", ["128"], "Tokens of a row; rows become fewer as they become longer.")
flags.DEFINE_list("dropout", DROPOUT, "Rates.")
flags.DEFINE_list("libraries", PEERS, "Which to time, ours or others.")
flags.DEFINE_list("modes", None, "Try only these, of plain, xla, bf16, xla+bf16, compile, …")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 4.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, f"Exit with 1 if ours is not {TARGET} times as fast as the "
                  f"fastest other, below {TARGET_SHARE:.0%} of the peak at small and base, or the "
                  "flags leave out a size, a rate, a library or length 128.")


def main(_):
    missed = []
    for size in flags.FLAGS.sizes:
        for length in map(int, flags.FLAGS.lengths):
            for dropout in map(float, flags.FLAGS.dropout):
                missed += compare(size, length, dropout)
    if flags.FLAGS.check:
        missed += left_out(
            flags.FLAGS, sizes=SIZES, lengths=["128"], dropout=DROPOUT, libraries=PEERS)
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and flags.FLAGS.check))


def compare(size, length, dropout):
    """Prints a table; returns which targets were missed."""
    layers, width, heads, rows = SIZES[size]
    rows, masked = max(1, rows * 128 // length), -(-length * 15 // 100)
    options = {"layers": layers, "width": width, "heads": heads, "rows": rows, "length": length,
               "masked": masked, "dropout": dropout}
    values = flags.FLAGS
    modes = {name: LIBRARIES[name].best_mode(
        values.environments, options, None if name == PRODUCT else values.modes, values.seconds)
        for name in [*values.libraries, PRODUCT]}
    modes = {name: mode for name, mode in modes.items() if mode is not None}
    product = modes[PRODUCT]
    with running([LIBRARIES[name].start(values.environments, mode, options)
                  for name, mode in modes.items()]) as contenders:
        found = in_turn(contenders, values.turns, values.seconds)
    work = useful_flops(layers, width, rows, length, masked)
    peaks = [2 * PRODUCT_ROWS**3 / seconds for seconds in found.pop(PRODUCT)]
    print(f"\n{size}: {layers} layers of {width}, {rows} rows of {length} tokens, {masked} masked, "
          f"dropout {dropout:g}; product of matrices {product or 'fp32'}: "
          f"{spread([p / 1e9 for p in peaks], 0)} GFLOP/s")
    print(f"{'':32}{'sequences/s':>26}{'GFLOP/s':>10}{'of peak':>9}   keras-attn is faster by")
    ours = found.get(OURS)
    for name, times in found.items():
        share = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        ratio = [theirs / own for theirs, own in zip(times, ours or times, strict=True)]
        print(f"{name + ' ' + (modes[name] or 'fp32'):32}{spread([rows / t for t in times]):>26}"
              f"{work / statistics.median(times) / 1e9:10.0f}{share:9.0%}"
              + (f"   {spread(ratio, 2)}" if ours and name != OURS else ""))
    return missed(size, length, dropout, found, work, peaks)


def missed(size, length, dropout, found, work, peaks):
    """Targets that the times of a table miss, in words."""
    ours = found.get(OURS)
    others = [times for name, times in found.items() if name != OURS]
    where, said = f"{size}, length {length}, dropout {dropout:g}", []
    absent = [name for name in flags.FLAGS.libraries if name not in found]
    if absent:
        said.append(f"{where}: not measured: {', '.join(absent)}")
    if ours and others:
        best = min(others, key=statistics.median)
        ratio = statistics.median(t / own for t, own in zip(best, ours, strict=True))
        if ratio < TARGET:
            said.append(f"{where}: {ratio:.2f} times the fastest other")
    if ours and size in ("small", "base"):
        share = statistics.median(work / t / p for t, p in zip(ours, peaks, strict=True))
        if share < TARGET_SHARE:
            said.append(f"{where}: {share:.0%} of the peak")
    return said


if __name__ == "__main__":
    app.run(main)
