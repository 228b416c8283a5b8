"""Times one MLM + NSP step of BERT on a GPU, of our model on JAX, beside compiled transformers.

    pip install 'jax[cuda13]' torch transformers keras numpy absl-py
    python -m benchmarks.gpu --sizes=base,large --lengths=128,512

Layers and model only: `python -m pretrain` runs on TensorFlow, which this neither needs nor times.
All is in bfloat16. Useful work is counted as in pretraining_step; its share of the card's peak
(MFU) is of a product of two matrices, measured in the same turns.
"""

import os
import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import useful_flops
from benchmarks.turns import Contender, in_turn, left_out, running, spread

SIZES = {"tiny": (2, 128, 2, 64), "base": (12, 768, 12, 256), "large": (24, 1024, 16, 128)}
OURS, THEIRS, PRODUCT = "keras-attn, JAX", "transformers, compiled", "matrix product"
MODULES = {OURS: "ours_jax", THEIRS: "hugging_face", PRODUCT: "product_jax"}
DROPOUT = ["0", "0.1"]
TARGET, TARGET_SHARE = 1.2, 0.5  # --check, of base at length 128

FLAGS = flags.FLAGS
flags.DEFINE_list("sizes", ["base", "large"], "Of tiny, base, large.")
flags.DEFINE_list("lengths", ["128", "512"], "Tokens of a row; rows become fewer as they grow.")
flags.DEFINE_list("dropout", DROPOUT, "Rates.")
flags.DEFINE_integer("rows", None, "Of 128 tokens in a batch; without: 256 of base, 128 of large.")
flags.DEFINE_integer("product", 8192, "Rows of the matrices.")
flags.DEFINE_string("device", "cuda", "Of PyTorch; JAX takes what it finds.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 2.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, f"Exit with 1 if ours is not {TARGET} times as fast, or below "
                  f"{TARGET_SHARE:.0%} of the peak, at base, length 128.")


def main(_):
    # The processes share the card: none may take three quarters of its memory at once, as JAX does.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # Products by cuBLAS take a bias along; Triton's do not, which takes a twentieth longer.
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    missed = []
    for size in FLAGS.sizes:
        for length in map(int, FLAGS.lengths):
            for dropout in map(float, FLAGS.dropout):
                ratio, share = compare(size, length, dropout)
                if (size, length) == ("base", 128) and (ratio < TARGET or share < TARGET_SHARE):
                    missed.append(f"dropout {dropout:g}: {ratio:.2f} times, {share:.0%} of peak")
    if FLAGS.check:
        missed += left_out(FLAGS, sizes=["base"], lengths=["128"], dropout=DROPOUT)
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(size, length, dropout):
    """Prints a table; returns how much faster ours is, and its share of the peak."""
    layers, width, heads, rows = SIZES[size]
    rows, masked = max(1, (FLAGS.rows or rows) * 128 // length), -(-length * 15 // 100)
    options = {"layers": layers, "width": width, "heads": heads, "rows": rows, "length": length,
               "masked": masked, "dropout": dropout, "bf16": True, "compile": True,
               "device": FLAGS.device, "size": FLAGS.product}
    with running([Contender(name, sys.executable, f"benchmarks.contenders.pretraining.{module}",
                            options, backend="jax")
                  for name, module in MODULES.items()]) as contenders:
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
    peaks = [2 * FLAGS.product**3 / seconds for seconds in found.pop(PRODUCT)]
    work = useful_flops(layers, width, rows, length, masked)
    print(f"\n{size}: {rows} rows of {length} tokens, {masked} masked, dropout {dropout:g}; "
          f"product of matrices: {spread([peak / 1e12 for peak in peaks])} TFLOP/s")
    shares = {}
    for name, times in found.items():
        shares[name] = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        print(f"{name:24}{spread([rows / t for t in times]):>32} sequences/s{shares[name]:9.0%}",
              flush=True)
    ratios = [theirs / own for theirs, own in zip(found[THEIRS], found[OURS], strict=True)]
    print(f"keras-attn is faster by {spread(ratios, 2)}")
    return statistics.median(ratios), shares[OURS]


if __name__ == "__main__":
    app.run(main)
