"""Times attention beside Keras's and PyTorch's, and gives the peak of memory.

    make bench-env
    python -m benchmarks.attention --lengths=128,1024,4096,16384

Memory is what the process holds at its peak beyond what it held with the inputs. Keras's own is
left out beyond --longest_of_keras: its weights of 16,384 tokens would take 8 GB. Useful work is
4 B H T^2 K FLOP, in the layer 8 B T (H K)^2 more, and back twice as much; the peak is that of a
product of two matrices of 2,048 rows in float32.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.contenders.pretraining.batch import PRODUCT_ROWS
from benchmarks.turns import Contender, in_turn, left_out, python_of, running, spread

FLAGS = flags.FLAGS
flags.DEFINE_list("what", ["function", "layer"], "scaled_dot_product_attention; the layer.")
flags.DEFINE_multi_enum("directions", ["both"], ["forward", "both"], "Forward; forward and back.")
flags.DEFINE_list("lengths", ["128", "512", "2048", "4096", "16384"], "Tokens.")
flags.DEFINE_integer("rows", 1, "Of a batch.")
flags.DEFINE_integer("heads", 8, "Heads.")
flags.DEFINE_integer("width", 64, "Of a head.")
flags.DEFINE_integer("longest_of_keras", 4096, "Tokens up to which Keras's own is timed.")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 2.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, "Exit with 1 if 16,384 tokens take 300 MB or longer than torch.")

OURS, KERAS, TORCH, PRODUCT = "keras-attn", "Keras", "PyTorch", "matrix product"
WAYS = {OURS: "", f"{OURS}, XLA": "xla", KERAS: "", f"{KERAS}, XLA": "xla", TORCH: ""}


def main(_):
    missed = []
    for what in FLAGS.what:
        for length in map(int, FLAGS.lengths):
            for direction in FLAGS.directions:
                missed += compare(what, length, direction == "both")
    if FLAGS.check:
        missed += left_out(FLAGS, what=["function"], lengths=["16384"], directions=["both"])
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(what, length, back):
    """Prints a table; returns which targets were missed."""
    torch = python_of(TORCH, FLAGS.environments, "transformers")
    contenders = [Contender(PRODUCT, sys.executable, "benchmarks.contenders.pretraining.product",
                            {"bf16": False})]
    for name, mode in WAYS.items():
        python = torch if name == TORCH else sys.executable
        if python and (not name.startswith(KERAS) or length <= FLAGS.longest_of_keras):
            module = "pytorch" if name == TORCH else "tensorflow_libraries"
            contenders.append(Contender(
                name, python, f"benchmarks.contenders.attention.{module}",
                {"what": what, "back": back, "length": length, "rows": FLAGS.rows,
                 "heads": FLAGS.heads, "width": FLAGS.width, "ours": name.startswith(OURS),
                 "xla": mode == "xla"}))
    with running(contenders):
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
        memory = {c.name: c.measure(1)["memory"] / 1e6 for c in contenders if c.name != PRODUCT}
    peaks = [2 * PRODUCT_ROWS**3 / seconds for seconds in found.pop(PRODUCT)]
    print(f"\n{what}, {FLAGS.rows} x {FLAGS.heads} heads of {FLAGS.width}, {length} tokens: "
          f"forward{' and back' if back else ''}; product of matrices: "
          f"{spread([p / 1e9 for p in peaks], 0)} GFLOP/s")
    work = useful_flops(what, length) * (3 if back else 1)
    for name, times in found.items():
        share = statistics.median(work / t / p for t, p in zip(times, peaks, strict=True))
        print(f"{name:18}{spread([t * 1e3 for t in times]):>32} ms{memory[name]:10.0f} MB"
              f"{work / statistics.median(times) / 1e9:8.0f} GFLOP/s{share:7.0%} of the peak",
              flush=True)
    if what == "layer" or length < 16384 or not back:
        return []
    if TORCH not in found:
        return ["PyTorch, to compare with, is not there"]
    best = min((name for name in found if name.startswith(OURS)),
               key=lambda name: statistics.median(found[name]))
    ratio = statistics.median(
        o / t for o, t in zip(found[best], found[TORCH], strict=True))
    said = [] if ratio <= 1 else [f"{ratio:.2f} times the time of PyTorch"]
    return said + ([] if memory[best] < 300 else [f"{memory[best]:.0f} MB"])


def useful_flops(what, length):
    """Of forward."""
    dense = 8 * length * (FLAGS.heads * FLAGS.width)**2 if what == "layer" else 0
    return FLAGS.rows * (4 * FLAGS.heads * length**2 * FLAGS.width + dense)


if __name__ == "__main__":
    app.run(main)
