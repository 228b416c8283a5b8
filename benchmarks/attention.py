"""Time and peak memory of attention in keras-attn, Keras and PyTorch.

    make bench-env
    python -m benchmarks.attention --lengths=128,1024,4096,16384

Memory is the peak of the process minus what it held with the inputs. Keras is not measured beyond
--longest_of_keras: its attention weights of 16,384 tokens would take 8 GB. The useful work of the
forward pass is 4 B H T^2 K FLOP, plus 8 B T (H K)^2 for the layer; the backward pass takes twice as
much. The peak throughput is that of a product of two float32 matrices of 2,048 rows.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import PRODUCT_ROWS
from benchmarks.interleaved import Contender, in_turn, left_out, median_range, python_of, running

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "what",
    ["function", "layer"],
    "function: scaled_dot_product_attention; layer: MultiHeadAttention.",
)
flags.DEFINE_multi_enum(
    "directions", ["both"], ["forward", "both"], "forward pass, or both forward and backward pass."
)
flags.DEFINE_list("lengths", ["128", "512", "2048", "4096", "16384"], "Sequence lengths.")
flags.DEFINE_integer("rows", 1, "Batch size.")
flags.DEFINE_integer("heads", 8, "Number of heads.")
flags.DEFINE_integer("width", 64, "Size of a head.")
flags.DEFINE_integer("longest_of_keras", 4096, "Maximum length for Keras's attention.")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 2.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    "Exit with 1 if 16,384 tokens take 300 MB or more, or more time than in PyTorch.",
)

OURS, KERAS, TORCH, PRODUCT = "keras-attn", "Keras", "PyTorch", "matrix product"
MODES = {OURS: "", f"{OURS}, XLA": "xla", KERAS: "", f"{KERAS}, XLA": "xla", TORCH: ""}


def main(_):
    missed = []
    for what in FLAGS.what:
        for length in map(int, FLAGS.lengths):
            for direction in FLAGS.directions:
                missed += compare(what, length, direction == "both")
    if FLAGS.check:
        missed += left_out(FLAGS, what=["function"], lengths=["16384"], directions=["both"])
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(what, length, back):
    """Prints a table and returns the missed targets."""
    torch = python_of(TORCH, FLAGS.environments, "transformers")
    contenders = [
        Contender(
            PRODUCT, sys.executable, "benchmarks.contenders.pretraining.product", {"bf16": False}
        )
    ]
    for name, mode in MODES.items():
        python = torch if name == TORCH else sys.executable
        if python and (not name.startswith(KERAS) or length <= FLAGS.longest_of_keras):
            module = "pytorch" if name == TORCH else "tensorflow_libraries"
            contenders.append(
                Contender(
                    name,
                    python,
                    f"benchmarks.contenders.attention.{module}",
                    {
                        "what": what,
                        "back": back,
                        "length": length,
                        "rows": FLAGS.rows,
                        "heads": FLAGS.heads,
                        "head_dim": FLAGS.width,
                        "ours": name.startswith(OURS),
                        "xla": mode == "xla",
                    },
                )
            )
    with running(contenders):
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
        memory = {c.name: c.measure(1)["memory"] / 1e6 for c in contenders if c.name != PRODUCT}
    peaks = [2 * PRODUCT_ROWS**3 / seconds for seconds in found.pop(PRODUCT)]
    print(
        f"\n{what}, {FLAGS.rows} x {FLAGS.heads} heads of {FLAGS.width}, {length} tokens: "
        f"forward{' and backward' if back else ''}; matrix product: "
        f"{median_range([p / 1e9 for p in peaks], 0)} GFLOP/s"
    )
    work = useful_flops(what, length) * (3 if back else 1)
    for name, times in found.items():
        fraction = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        print(
            f"{name:18}{median_range([t * 1e3 for t in times]):>32} ms{memory[name]:10.0f} MB"
            f"{work / statistics.median(times) / 1e9:8.0f} GFLOP/s{fraction:7.0%} of peak",
            flush=True,
        )
    if what == "layer" or length < 16384 or not back:
        return []
    if TORCH not in found:
        return ["PyTorch was not measured"]
    best = min(
        (name for name in found if name.startswith(OURS)),
        key=lambda name: statistics.median(found[name]),
    )
    ratio = statistics.median(o / t for o, t in zip(found[best], found[TORCH], strict=True))
    slow = [] if ratio <= 1 else [f"{ratio:.2f} times the time of PyTorch"]
    return slow + ([] if memory[best] < 300 else [f"{memory[best]:.0f} MB"])


def useful_flops(what, length):
    """Returns the FLOP of a forward pass."""
    dense = 8 * length * (FLAGS.heads * FLAGS.width) ** 2 if what == "layer" else 0
    return FLAGS.rows * (4 * FLAGS.heads * length**2 * FLAGS.width + dense)


if __name__ == "__main__":
    app.run(main)
