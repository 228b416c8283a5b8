"""Throughput of masked examples, from text and from prepared ids, compared with other libraries.

    make bench-env
    python -m benchmarks.input_pipeline --input='novels/train/*.txt.gz' --vocabulary=vocab.txt

An example has 128 tokens, at most 20 of them masked; a batch has 256 examples. All libraries read
one plain text file with one sentence per line, as our sentence splitter produces it; slow baselines
read only its beginning. "Text to batches" is the whole pipeline, into an empty folder and once
through the data; `create_pretraining_data`, a single process, ends when its TFRecords are written.
Hugging Face's examples are text split every 128 tokens, without sentence pairs; its loader is tried
with workers, and with whole batches instead of single examples. TFRecords are masked once, when
they are written; the other libraries mask again in each epoch.
"""

import os
import statistics
import sys
import tempfile
from collections import Counter

from absl import app, flags

from benchmarks.interleaved import (
    Contender,
    counts_of,
    fastest_mode,
    left_out,
    median_range,
    python_of,
    reports_in_turn,
    running,
)
from keras_attn.data.processes import available_cores
from keras_attn.data.sources.text_sources import plan_source, read_task

OURS, HUGGING_FACE, GARDEN = "keras-attn", "Hugging Face", "Model Garden"
# Folder of the environment, module, modes.
LIBRARIES = {
    OURS: (None, "ours", ("",)),
    HUGGING_FACE: ("transformers", "hugging_face", ("", "workers", "whole", "whole+workers")),
    GARDEN: ("model-garden", "model_garden", ("",)),
}
TITLES = {"ids": "prepared to batches", "text": "text to batches"}
TARGETS = {"ids": 50, "text": 15}  # --check: speedup over create_pretraining_data

FLAGS = flags.FLAGS
flags.DEFINE_string("input", "docstrings", "Text, as for pretrain.prepare.")
flags.DEFINE_string("vocabulary", None, "Uncased vocabulary file.", required=True)
flags.DEFINE_integer("files", None, "Number of input files to read; default: all.")
flags.DEFINE_float("megabytes", 64.0, "Size of the text.")
flags.DEFINE_float("peer_megabytes", 3.0, "Size of the beginning that slow baselines read.")
flags.DEFINE_integer("length", 128, "Sequence length.")
flags.DEFINE_integer("predictions", 20, "Maximum number of masked tokens per sequence.")
flags.DEFINE_integer("rows", 256, "Batch size.")
flags.DEFINE_list("libraries", list(LIBRARIES), "Libraries to measure.")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 3.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    f"Exit with 1 if keras-attn makes fewer than {TARGETS['ids']} "
    f"times the examples/s of create_pretraining_data from ids or {TARGETS['text']} "
    "times from text, or a library is left out.",
)


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: os.path.join(folder, f"{name}.txt") for name in ("all", "slice")}
        write_text(texts["all"], texts["slice"])
        modes = {name: best_mode(name, texts, folder) for name in FLAGS.libraries}
        modes = {name: mode for name, mode in modes.items() if mode is not None}
        contenders = [
            start(name, mode, what, texts, folder)
            for what in TARGETS
            for name, mode in modes.items()
        ]
        with running(contenders):
            counts = counts_of(contenders, FLAGS.seconds)
            found = reports_in_turn(contenders, FLAGS.turns, counts)
    missed = report(found, modes) + (left_out(FLAGS, libraries=LIBRARIES) if FLAGS.check else [])
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def write_text(path, beginning):
    """Writes the text and its beginning: a sentence per line, blank lines between documents."""
    source = FLAGS.input
    if FLAGS.files:
        from keras_attn.data.sources.files import find_files

        source = find_files(source)[: FLAGS.files]
    plan, size, documents = plan_source(source), 0, 0
    with open(path, "w") as file, open(beginning, "w") as first:
        for task in range(len(plan["tasks"])):
            for document in read_task(plan, task, Counter()):
                if size >= FLAGS.megabytes * 1e6:
                    break
                text = "\n".join(document) + "\n\n"
                file.write(text)
                first.write(text if size < FLAGS.peer_megabytes * 1e6 else "")
                size += len(text.encode())
                documents += 1
    print(
        f"{documents:,} documents, {size / 1e6:.1f} MB; for slow baselines "
        f"{os.path.getsize(beginning) / 1e6:.1f} MB; {available_cores()} cores",
        flush=True,
    )


def best_mode(name, texts, folder):
    """Returns the fastest mode of a library; None if it is not installed or no mode works."""
    directory, _, modes = LIBRARIES[name]
    if not python_of(name, FLAGS.environments, directory):
        return None
    if len(modes) == 1:
        return modes[0]
    return fastest_mode(modes, lambda mode: start(name, mode, "ids", texts, folder), FLAGS.seconds)


def start(name, mode, what, texts, folder):
    directory, module, _ = LIBRARIES[name]
    folder = os.path.join(folder, f"{module}-{what}")
    os.makedirs(folder, exist_ok=True)
    slow = name != OURS and (what == "text" or name == GARDEN)
    return Contender(
        f"{what} {name}",
        python_of(name, FLAGS.environments, directory),
        f"benchmarks.contenders.input_pipeline.{module}",
        {
            "what": what,
            "folder": folder,
            "text": texts["slice" if slow else "all"],
            "vocabulary": os.path.abspath(FLAGS.vocabulary),
            "processes": available_cores(),
            **{option: FLAGS[option].value for option in ("length", "predictions", "rows")},
            **{switch: switch in mode.split("+") for switch in ("workers", "whole")},
        },
    )


def report(found, modes):
    """Prints a table and returns descriptions of the missed targets."""
    speeds = {name: [r["rows"] / r["seconds"] for r in reports] for name, reports in found.items()}
    base = speeds.get(f"text {GARDEN}")
    print(f"\n{'':52}{'examples/s':>26}   ratio to create_pretraining_data")
    missed = [] if base else [f"{GARDEN} was not measured"]
    for name, values in speeds.items():
        what, library = name.split(" ", 1)
        title = f"{TITLES[what]}, {library} {modes[library]}"
        ratio = [own / theirs for own, theirs in zip(values, base or values, strict=True)]
        print(
            f"{title:52}{median_range(values, 0):>26}"
            + (f"   {median_range(ratio)}" if base else "")
        )
        if base and library == OURS and statistics.median(ratio) < TARGETS[what]:
            missed.append(f"{title}: {statistics.median(ratio):.1f} times create_pretraining_data")
    return missed


if __name__ == "__main__":
    app.run(main)
