"""Times attention, forward and back, beside Keras's and PyTorch's, and gives the peak of memory.

    make bench-env
    python -m benchmarks.attention --lengths=128,1024,4096,16384

Memory is what the process holds at its peak beyond what it held with the inputs. Keras's own is
left out beyond --longest_of_keras: its weights of 16,384 tokens would take 8 GB.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.turns import Contender, in_turn, python_of, running, spread

FLAGS = flags.FLAGS
flags.DEFINE_list("what", ["function", "layer"], "scaled_dot_product_attention; the layer.")
flags.DEFINE_list("lengths", ["128", "512", "2048", "4096", "16384"], "Tokens.")
flags.DEFINE_integer("rows", 1, "Of a batch.")
flags.DEFINE_integer("heads", 8, "Heads.")
flags.DEFINE_integer("width", 64, "Of a head.")
flags.DEFINE_integer("longest_of_keras", 4096, "Tokens up to which Keras's own is timed.")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 2.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, "Exit with 1 if 16,384 tokens take 300 MB or longer than torch.")

OURS, KERAS, TORCH = "keras-attn", "Keras", "PyTorch"
WAYS = {OURS: "", f"{OURS}, XLA": "xla", KERAS: "", f"{KERAS}, XLA": "xla", TORCH: ""}


def main(_):
    missed = []
    for what in FLAGS.what:
        for length in map(int, FLAGS.lengths):
            missed += compare(what, length)
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(what, length):
    """Prints a table; returns which targets were missed."""
    torch = python_of(TORCH, FLAGS.environments, "transformers")
    contenders = []
    for name, mode in WAYS.items():
        python = torch if name == TORCH else sys.executable
        if python and (not name.startswith(KERAS) or length <= FLAGS.longest_of_keras):
            module = "pytorch" if name == TORCH else "tensorflow_libraries"
            contenders.append(Contender(
                name, python, f"benchmarks.contenders.attention.{module}",
                {"what": what, "length": length, "rows": FLAGS.rows, "heads": FLAGS.heads,
                 "width": FLAGS.width, "ours": name.startswith(OURS), "xla": mode == "xla"}))
    with running(contenders):
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
        memory = {c.name: c.measure(1)["memory"] / 1e6 for c in contenders}
    print(f"\n{what}, {FLAGS.rows} x {FLAGS.heads} heads of {FLAGS.width}, {length} tokens: "
          "forward and back")
    for name, times in found.items():
        print(f"{name:18}{spread([t * 1e3 for t in times]):>32} ms{memory[name]:10.0f} MB",
              flush=True)
    if what == "layer" or length < 16384 or TORCH not in found:
        return []
    best = min((name for name in found if name.startswith(OURS)),
               key=lambda name: statistics.median(found[name]))
    ratio = statistics.median(
        o / t for o, t in zip(found[best], found[TORCH], strict=True))
    said = [] if ratio <= 1 else [f"{ratio:.2f} times the time of PyTorch"]
    return said + ([] if memory[best] < 300 else [f"{memory[best]:.0f} MB"])


if __name__ == "__main__":
    app.run(main)
