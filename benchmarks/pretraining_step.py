"""Time of one MLM + NSP training step, from the batch to updated weights, in several libraries.

    make bench-env
    python -m benchmarks.pretraining_step --sizes=tiny,small --lengths=128 --dropout=0

Each library is tried in each of its modes; then the best modes are measured in turn. The last
column is the ratio of our throughput to theirs, turn by turn. The useful work of a step is
6 B (12 L D^2 T + 2 L T^2 D + P (D^2 + V D)) FLOP, with logits of masked tokens only. The peak is
that of a product of two matrices of 2,048 rows in TensorFlow: the fastest of float32, with and
without XLA, and bfloat16.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import PRODUCT_ROWS, useful_flops
from benchmarks.interleaved import Library, in_turn, left_out, median_range, running

SIZES = {
    "tiny": (2, 128, 2, 64),
    "mini": (4, 256, 4, 32),
    "small": (4, 512, 8, 16),
    "base": (12, 768, 12, 8),
}  # layers, hidden_dim, heads, batch size at length 128
OURS, PRODUCT = "keras-attn", "matrix product"
XLA, MODULES = ("", "xla", "bf16", "xla+bf16"), "benchmarks.contenders.pretraining."
LIBRARIES = {
    one.name: one
    for one in (
        Library(OURS, None, f"{MODULES}ours", XLA),
        Library(
            "transformers",
            "transformers",
            f"{MODULES}hugging_face",
            ("", "bf16", "compile", "compile+bf16"),
        ),
        Library("KerasHub", "keras-hub", f"{MODULES}keras_hub", XLA),
        Library("Model Garden", "model-garden", f"{MODULES}model_garden", XLA),
        Library(PRODUCT, None, f"{MODULES}product", ("", "xla", "bf16")),
    )
}
PEERS, DROPOUT = [name for name in LIBRARIES if name != PRODUCT], ["0", "0.1"]
TARGET, TARGET_MFU = 1.5, 0.6  # --check, at length 128

flags.DEFINE_list("sizes", list(SIZES), "Model sizes: tiny, mini, small, base.")
flags.DEFINE_list("lengths", ["128"], "Sequence lengths; the batch size shrinks as they grow.")
flags.DEFINE_list("dropout", DROPOUT, "Dropout rates.")
flags.DEFINE_list("libraries", PEERS, "Libraries to measure.")
flags.DEFINE_list("modes", None, "Try only these modes: plain, xla, bf16, xla+bf16, compile, …")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 4.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    "Exit with 1 if the speedup over the fastest baseline is below "
    f"{TARGET}, the throughput is below {TARGET_MFU:.0%} of peak for small and base, "
    "or the flags leave out a size, a rate, a library or length 128.",
)


def main(_):
    missed = []
    for size in flags.FLAGS.sizes:
        for length in map(int, flags.FLAGS.lengths):
            for dropout in map(float, flags.FLAGS.dropout):
                missed += compare(size, length, dropout)
    if flags.FLAGS.check:
        missed += left_out(
            flags.FLAGS, sizes=SIZES, lengths=["128"], dropout=DROPOUT, libraries=PEERS
        )
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and flags.FLAGS.check))


def compare(size, length, dropout):
    """Prints a table and returns the missed targets."""
    layers, hidden_dim, heads, rows = SIZES[size]
    rows, masked = max(1, rows * 128 // length), -(-length * 15 // 100)
    options = {
        "layers": layers,
        "hidden_dim": hidden_dim,
        "heads": heads,
        "rows": rows,
        "length": length,
        "masked": masked,
        "dropout": dropout,
    }
    values = flags.FLAGS
    modes = {
        name: LIBRARIES[name].best_mode(
            values.environments, options, None if name == PRODUCT else values.modes, values.seconds
        )
        for name in [*values.libraries, PRODUCT]
    }
    modes = {name: mode for name, mode in modes.items() if mode is not None}
    product = modes[PRODUCT]
    with running(
        [LIBRARIES[name].start(values.environments, mode, options) for name, mode in modes.items()]
    ) as contenders:
        found = in_turn(contenders, values.turns, values.seconds)
    work = useful_flops(layers, hidden_dim, rows, length, masked)
    peaks = [2 * PRODUCT_ROWS**3 / seconds for seconds in found.pop(PRODUCT)]
    print(
        f"\n{size}: {layers} layers, hidden size {hidden_dim}, {rows} sequences of {length} "
        f"tokens, {masked} masked, dropout {dropout:g}; matrix product {product or 'fp32'}: "
        f"{median_range([p / 1e9 for p in peaks], 0)} GFLOP/s"
    )
    print(f"{'':32}{'sequences/s':>26}{'GFLOP/s':>10}{'of peak':>9}   speedup of keras-attn")
    ours = found.get(OURS)
    for name, times in found.items():
        fraction = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        ratio = [theirs / own for theirs, own in zip(times, ours or times, strict=True)]
        speeds = [rows / t for t in times]
        print(
            f"{name + ' ' + (modes[name] or 'fp32'):32}{median_range(speeds):>26}"
            f"{work / statistics.median(times) / 1e9:10.0f}{fraction:9.0%}"
            + (f"   {median_range(ratio, 2)}" if ours and name != OURS else "")
        )
    return missed(size, length, dropout, found, work, peaks)


def missed(size, length, dropout, found, work, peaks):
    """Returns descriptions of the targets that the times of a table miss."""
    ours = found.get(OURS)
    others = [times for name, times in found.items() if name != OURS]
    where, messages = f"{size}, length {length}, dropout {dropout:g}", []
    unmeasured = [name for name in flags.FLAGS.libraries if name not in found]
    if unmeasured:
        messages.append(f"{where}: not measured: {', '.join(unmeasured)}")
    if ours and others:
        best = min(others, key=statistics.median)
        ratio = statistics.median(t / own for t, own in zip(best, ours, strict=True))
        if ratio < TARGET:
            messages.append(f"{where}: {ratio:.2f} times the fastest baseline")
    if ours and size in ("small", "base"):
        fraction = statistics.median(work / t / p for t, p in zip(ours, peaks, strict=True))
        if fraction < TARGET_MFU:
            messages.append(f"{where}: {fraction:.0%} of peak")
    return messages


if __name__ == "__main__":
    app.run(main)
