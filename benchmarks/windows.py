"""Time and memory of windows, by length, beside attention to all.

    python -m benchmarks.windows

Layers on one random row, forward and back; memory is what the process holds at its peak beyond
what it held with the inputs. Keras's own layer, which holds the weights of all pairs, is left out
beyond --longest_of_keras: at 32,768 tokens one copy of them would take 17 GB.
"""

import sys

from absl import app, flags

from benchmarks.turns import Contender, in_turn, running, spread

FLAGS = flags.FLAGS
flags.DEFINE_list("lengths", ["512", "2048", "8192", "32768"], "Tokens.")
flags.DEFINE_integer("heads", 4, "Heads.")
flags.DEFINE_integer("width", 64, "Of a head.")
flags.DEFINE_integer("window", 64, "Tokens on either side.")
flags.DEFINE_integer("longest_of_keras", 8192, "Tokens up to which Keras's own is timed.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 1.0, "Of one timing, about.")

KINDS = {"all, Keras": "layer", "all": "layer", "window": "window", "expanded window": "expanded"}


def main(_):
    print(f"{FLAGS.heads} heads of {FLAGS.width}; windows of {FLAGS.window} tokens on either side, "
          "the expanded one of 2 steps and with 16 tokens for all")
    for length in map(int, FLAGS.lengths):
        contenders = [
            Contender(f"{name}{', XLA' * xla}", sys.executable,
                      "benchmarks.contenders.attention.tensorflow_libraries",
                      {"what": what, "back": True, "length": length, "rows": 1,
                       "ours": not name.endswith("Keras"), "heads": FLAGS.heads,
                       "width": FLAGS.width, "window": FLAGS.window, "xla": xla})
            for name, what in KINDS.items() for xla in (False, True)
            if not name.endswith("Keras") or length <= FLAGS.longest_of_keras]
        with running(contenders):
            found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
            memory = {c.name: c.measure(1)["memory"] / 1e6 for c in contenders}
        for name, times in found.items():
            print(f"{length:6} {name:22}{spread([t * 1e3 for t in times]):>32} ms"
                  f"{memory[name]:10.0f} MB", flush=True)


if __name__ == "__main__":
    app.run(main)
