"""Time and memory of window attention by sequence length, compared with full attention.

    python -m benchmarks.windows

Forward and backward pass of a layer on one random sequence. Memory is the peak of the process minus
what it held with the inputs. Keras's layer, which stores all attention weights, is not measured
beyond --longest_of_keras: at 32,768 tokens one copy of them would take 17 GB.
"""

import sys

from absl import app, flags

from benchmarks.interleaved import Contender, in_turn, median_range, running

FLAGS = flags.FLAGS
flags.DEFINE_list("lengths", ["512", "2048", "8192", "32768"], "Sequence lengths.")
flags.DEFINE_integer("heads", 4, "Number of heads.")
flags.DEFINE_integer("width", 64, "Size of a head.")
flags.DEFINE_integer("window", 64, "Window size: tokens on either side.")
flags.DEFINE_integer("longest_of_keras", 8192, "Maximum length for Keras's layer.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 1.0, "Approximate seconds per measurement.")

KINDS = {"full, Keras": "layer", "full": "layer", "window": "window", "expanded window": "expanded"}


def main(_):
    print(
        f"{FLAGS.heads} heads of size {FLAGS.width}; windows of {FLAGS.window} tokens on either "
        "side, the expanded one with dilation 2 and 16 global tokens"
    )
    for length in map(int, FLAGS.lengths):
        contenders = [
            Contender(
                f"{name}{', XLA' * xla}",
                sys.executable,
                "benchmarks.contenders.attention.tensorflow_libraries",
                {
                    "what": what,
                    "back": True,
                    "length": length,
                    "rows": 1,
                    "ours": not name.endswith("Keras"),
                    "heads": FLAGS.heads,
                    "head_dim": FLAGS.width,
                    "window": FLAGS.window,
                    "xla": xla,
                },
            )
            for name, what in KINDS.items()
            for xla in (False, True)
            if not name.endswith("Keras") or length <= FLAGS.longest_of_keras
        ]
        with running(contenders):
            found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
            memory = {c.name: c.measure(1)["memory"] / 1e6 for c in contenders}
        for name, times in found.items():
            print(
                f"{length:6} {name:22}{median_range([t * 1e3 for t in times]):>32} ms"
                f"{memory[name]:10.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    app.run(main)
