"""Time of an epoch of BERT-mini on SST-2 in several libraries, and the accuracy after it.

    make bench-env
    python -m benchmarks.finetuning --train=SST-2/train.tsv --validation=SST-2/dev.tsv \\
        --vocabulary=vocab.txt

At most 128 tokens per example, batches of 32, AdamW, dropout 0.1, float32, and a learning rate that
rises to 1e-4 and decays to 0. Each library starts from its own random weights of the same
distribution. First, each library is tried in its modes. Then the contenders train in turn, a part
of the epoch each time, until all have finished; the time of the whole epoch is compared. The first
three steps, which compile, and tokenization are not timed (later compilations are), unless a
library tokenizes during training. "By length" is a sampler that draws batches of similar length, as
keras-attn does unless it packs; the target does not count it.
"""

import json
import os
import sys
import tempfile

from absl import app, flags

from benchmarks.contenders.finetuning.epoch import BATCH
from benchmarks.interleaved import (
    Contender,
    fastest_mode,
    left_out,
    median_range,
    python_of,
    running,
)
from keras_attn.data.sources.tables import read_table
from keras_attn.tasks.classification import glue
from keras_attn.tasks.finetuning.choices import rows_drawn

OURS, GROUPED = "keras-attn", "transformers, by length"
# Folder of the environment, module, modes.
LIBRARIES = {
    OURS: (None, "ours", ("", "packed", "xla", "packed+xla")),
    "transformers": ("transformers", "hugging_face", ("",)),
    GROUPED: ("transformers", "hugging_face", ("grouped",)),
    "KerasHub": ("keras-hub", "keras_hub", ("", "xla", "ahead", "ahead+xla")),
}
TARGET, SAME = 2.0, 0.01  # --check: speedup, and tolerated loss of accuracy

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "train.tsv of SST-2.", required=True)
flags.DEFINE_string("validation", None, "dev.tsv of SST-2.", required=True)
flags.DEFINE_string("vocabulary", None, "Uncased vocabulary file.", required=True)
flags.DEFINE_integer("rows", None, "Size of a random training subset; default: all.")
flags.DEFINE_list("libraries", list(LIBRARIES), "Libraries to measure.")
flags.DEFINE_list("modes", None, "Try only these modes: '', packed, xla, ahead, packed+xla, …")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 14, "Number of parts of the epoch.")
flags.DEFINE_float("seconds", 8.0, "Approximate seconds for trying a mode.")
flags.DEFINE_bool(
    "check",
    False,
    f"Exit with 1 if the speedup over the fastest baseline is below "
    f"{TARGET:g}, keras-attn is less accurate, a library is missing, or the epoch is "
    "incomplete.",
)


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "rows.json")
        steps = write_rows(data) // BATCH
        modes = {name: best_mode(name, data) for name in FLAGS.libraries}
        modes = {name: mode for name, mode in modes.items() if mode is not None}
        with running([start(name, mode, data) for name, mode in modes.items()]) as contenders:
            outcome, parts = train(contenders, steps)
    print(
        f"\n{'':40}{'epoch':>10}{'examples/s':>24}{'tokens/example':>16}{'tokenization':>14}"
        f"{'accuracy':>10}   speedup of keras-attn"
    )
    totals = {name: sum(count * seconds for count, seconds in part) for name, part in parts.items()}
    ratios = {}
    for name, part in parts.items():
        found = outcome[name]
        took = "in training" if found["tokenizing"] is None else f"{found['tokenizing']:.1f} s"
        speeds = [BATCH / seconds for _, seconds in part]
        print(
            f"{name + ' ' + modes[name]:40}{totals[name]:>8.0f} s{median_range(speeds):>24}"
            f"{found['tokens']:>16.1f}{took:>14}"
            f"{found['accuracy']:>10.3f}",
            end="",
        )
        if OURS in totals and name != OURS:
            ratios[name] = totals[name] / totals[OURS]
            print(f"   {ratios[name]:.2f}", end="")
        print()
    least = min((ratio for name, ratio in ratios.items() if name != GROUPED), default=0.0)
    missed = [f"not measured: {name}" for name in FLAGS.libraries if name not in totals]
    if FLAGS.check:
        missed += left_out(FLAGS, libraries=LIBRARIES)
        missed += ["--rows limits the epoch"] if FLAGS.rows else []
    if least < TARGET:
        missed.append(
            f"{least:.2f} times the fastest baseline" if least else "no baseline was measured"
        )
    for name in ratios:
        less = outcome[name]["accuracy"] - outcome[OURS]["accuracy"]
        if less > SAME:
            missed.append(f"{less:.3f} less accurate than {name}")
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(FLAGS.check and missed))


def write_rows(path):
    """Writes the examples for all contenders and returns the number of training examples."""
    task, rows = glue.glue_task("sst2"), {}
    for split in ("train", "validation"):
        table = read_table(FLAGS[split].value, **task.columns(FLAGS[split].value))
        if split == "train":
            count = min(FLAGS.rows or len(table), len(table)) // BATCH * BATCH
            table = table.take(rows_drawn(len(table), count, 0))
        rows[split] = (table.texts, task.label_set().encode(table.labels).tolist())
    with open(path, "w") as file:
        json.dump(rows, file)
    print(f"{count:,} training and {len(rows['validation'][0]):,} validation examples", flush=True)
    return count


def train(contenders, steps):
    """Returns the final report of each contender, and (steps, seconds per step) of each part."""
    done = {c.name: c.measure(0)["done"] for c in contenders}
    parts = {c.name: [] for c in contenders}
    for left in range(FLAGS.turns, 0, -1):
        for contender in contenders:
            count = (steps - done[contender.name]) // left
            report = contender.measure(count)
            done[contender.name] = report["done"]
            parts[contender.name].append((count, report["seconds"]))
    return {c.name: c.measure(0) for c in contenders}, parts


def best_mode(name, data):
    """Returns the fastest mode of a library; None if it is not installed or no mode works."""
    folder, _, modes = LIBRARIES[name]
    if not python_of(name, FLAGS.environments, folder):
        return None
    if len(modes) > 1 and FLAGS.modes is not None:
        modes = [mode for mode in modes if mode in (FLAGS.modes or [""])]  # --modes= is the mode ""
    if len(modes) == 1:
        return modes[0]
    return fastest_mode(modes, lambda mode: start(name, mode, data), FLAGS.seconds)


def start(name, mode, data):
    folder, module, _ = LIBRARIES[name]
    switches = {
        switch: switch in mode.split("+") for switch in ("xla", "packed", "grouped", "ahead")
    }
    return Contender(
        name,
        python_of(name, FLAGS.environments, folder),
        f"benchmarks.contenders.finetuning.{module}",
        {"data": data, "vocabulary": os.path.abspath(FLAGS.vocabulary), **switches},
    )


if __name__ == "__main__":
    app.run(main)
