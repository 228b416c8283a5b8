"""Time of an MLM + NSP step of BERT on a GPU: our model on JAX, and compiled transformers.

    pip install 'jax[cuda13]' torch transformers keras numpy absl-py
    python -m benchmarks.gpu --sizes=base,large --lengths=128,512

Only layers and model are measured: `python -m pretrain` runs on TensorFlow, which is neither
required nor measured here. Everything is in bfloat16. Useful work is counted as in
pretraining_step; its fraction of the peak (MFU) refers to a matrix product, measured in the same
turns.
"""

import os
import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import useful_flops
from benchmarks.interleaved import Contender, in_turn, left_out, median_range, running

SIZES = {"tiny": (2, 128, 2, 64), "base": (12, 768, 12, 256), "large": (24, 1024, 16, 128)}
OURS, THEIRS, PRODUCT = "keras-attn, JAX", "transformers, compiled", "matrix product"
MODULES = {OURS: "ours_jax", THEIRS: "hugging_face", PRODUCT: "product_jax"}
DROPOUT = ["0", "0.1"]
TARGET, TARGET_MFU = 1.2, 0.5  # --check, of base at length 128

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["base", "large"], "Model sizes: tiny, base, large.")
flags.DEFINE_list(
    "lengths", ["128", "512"], "Sequence lengths; the batch size shrinks as they grow."
)
flags.DEFINE_list("dropout", DROPOUT, "Dropout rates.")
flags.DEFINE_integer("rows", None, "Batch size at 128 tokens; default: 256 (base), 128 (large).")
flags.DEFINE_integer("product", 8192, "Rows of the matrices of the matrix product.")
flags.DEFINE_string("device", "cuda", "Device of PyTorch; JAX uses its default device.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 2.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    f"Exit with 1 if, for base at length 128, the speedup is below "
    f"{TARGET} or the throughput below {TARGET_MFU:.0%} of peak.",
)


def main(_):
    # The processes share the GPU, of whose memory JAX would preallocate three quarters.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # cuBLAS fuses the bias into the matrix product; Triton does not, and takes 5 % longer.
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    missed = []
    for size in FLAGS.sizes:
        for length in map(int, FLAGS.lengths):
            for dropout in map(float, FLAGS.dropout):
                ratio, fraction = compare(size, length, dropout)
                if (size, length) == ("base", 128) and (ratio < TARGET or fraction < TARGET_MFU):
                    missed.append(f"dropout {dropout:g}: {ratio:.2f} times, {fraction:.0%} of peak")
    if FLAGS.check:
        missed += left_out(FLAGS, sizes=["base"], lengths=["128"], dropout=DROPOUT)
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(size, length, dropout):
    """Prints a table and returns our speedup and our fraction of the peak."""
    layers, hidden_dim, heads, rows = SIZES[size]
    rows, masked = max(1, (FLAGS.rows or rows) * 128 // length), -(-length * 15 // 100)
    options = {
        "layers": layers,
        "hidden_dim": hidden_dim,
        "heads": heads,
        "rows": rows,
        "length": length,
        "masked": masked,
        "dropout": dropout,
        "bf16": True,
        "compile": True,
        "device": FLAGS.device,
        "size": FLAGS.product,
    }
    with running(
        [
            Contender(
                name,
                sys.executable,
                f"benchmarks.contenders.pretraining.{module}",
                options,
                backend="jax",
            )
            for name, module in MODULES.items()
        ]
    ) as contenders:
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
    peaks = [2 * FLAGS.product**3 / seconds for seconds in found.pop(PRODUCT)]
    work = useful_flops(layers, hidden_dim, rows, length, masked)
    print(
        f"\n{size}: {rows} sequences of {length} tokens, {masked} masked, dropout {dropout:g}; "
        f"matrix product: {median_range([peak / 1e12 for peak in peaks])} TFLOP/s"
    )
    fractions = {}
    for name, times in found.items():
        fractions[name] = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        print(
            f"{name:24}{median_range([rows / t for t in times]):>32} sequences/s"
            f"{fractions[name]:9.0%}",
            flush=True,
        )
    ratios = [theirs / own for theirs, own in zip(found[THEIRS], found[OURS], strict=True)]
    print(f"speedup of keras-attn: {median_range(ratios, 2)}")
    return statistics.median(ratios), fractions[OURS]


if __name__ == "__main__":
    app.run(main)
