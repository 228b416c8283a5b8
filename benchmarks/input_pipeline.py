"""Masked examples a second from text, and from prepared ids, beside other libraries.

    make bench-env
    python -m benchmarks.input_pipeline --input='novels/train/*.txt.gz' --vocabulary=vocab.txt

An example is a row of 128 tokens, 20 masked at most; a batch has 256. All read one plain file, a
sentence a line as our splitter cuts them; peers that are slow read only its beginning. Text to
batches is the whole way, into a fresh folder and once through it; `create_pretraining_data`, a
single process, ends when its TFRecords are written. Of Hugging Face rows are text cut every 128
tokens, without pairs; its loader is tried with workers, and with whole batches instead of rows.
Rows of TFRecords are masked once, when they are written; the others anew in each epoch.
"""

import os
import statistics
import sys
import tempfile
from collections import Counter

from absl import app, flags

from benchmarks.turns import (
    Contender,
    counts_of,
    fastest_mode,
    left_out,
    python_of,
    reports_in_turn,
    running,
    spread,
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
TARGETS = {"ids": 50, "text": 15}  # --check: times create_pretraining_data

FLAGS = flags.FLAGS
flags.DEFINE_string("input", "docstrings", "Text, as for pretrain.prepare.")
flags.DEFINE_string("vocabulary", None, "Vocabulary file, uncased.", required=True)
flags.DEFINE_integer("files", None, "Read that many files of the input.")
flags.DEFINE_float("megabytes", 64.0, "Of text, where it is not a peer's to tokenize in each turn.")
flags.DEFINE_float("peer_megabytes", 3.0, "Of its beginning, for peers from text.")
flags.DEFINE_integer("length", 128, "Tokens of a row.")
flags.DEFINE_integer("predictions", 20, "Masked tokens of a row at most.")
flags.DEFINE_integer("rows", 256, "Of a batch.")
flags.DEFINE_list("libraries", list(LIBRARIES), "Which to time.")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 3.0, "Of one timing, at least about.")
flags.DEFINE_bool("check", False, f"Exit with 1 if keras-attn makes fewer examples than "
                  f"{TARGETS['ids']} times create_pretraining_data from ids, or "
                  f"{TARGETS['text']} times from text, or a library is left out.")


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: os.path.join(folder, f"{name}.txt") for name in ("all", "slice")}
        write_text(texts["all"], texts["slice"])
        modes = {name: best_mode(name, texts, folder) for name in FLAGS.libraries}
        modes = {name: mode for name, mode in modes.items() if mode is not None}
        contenders = [start(name, mode, what, texts, folder)
                      for what in TARGETS for name, mode in modes.items()]
        with running(contenders):
            counts = counts_of(contenders, FLAGS.seconds)
            found = reports_in_turn(contenders, FLAGS.turns, counts)
    missed = report(found, modes) + (left_out(FLAGS, libraries=LIBRARIES) if FLAGS.check else [])
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def write_text(path, beginning):
    """Writes the text, a sentence a line and blank lines between documents, and its beginning."""
    source = FLAGS.input
    if FLAGS.files:
        from keras_attn.data.sources.files import find_files

        source = find_files(source)[:FLAGS.files]
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
    print(f"{documents:,} documents, {size / 1e6:.1f} MB; of these for slow peers "
          f"{os.path.getsize(beginning) / 1e6:.1f} MB; {available_cores()} cores", flush=True)


def best_mode(name, texts, folder):
    """The fastest mode of a library, or None if it is not installed or none works."""
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
        f"{what} {name}", python_of(name, FLAGS.environments, directory),
        f"benchmarks.contenders.input_pipeline.{module}",
        {"what": what, "folder": folder, "text": texts["slice" if slow else "all"],
         "vocabulary": os.path.abspath(FLAGS.vocabulary), "processes": available_cores(),
         **{option: FLAGS[option].value for option in ("length", "predictions", "rows")},
         **{switch: switch in mode.split("+") for switch in ("workers", "whole")}})


def report(found, modes):
    """Prints a table; returns which targets were missed, in words."""
    speeds = {name: [r["rows"] / r["seconds"] for r in reports] for name, reports in found.items()}
    base = speeds.get(f"text {GARDEN}")
    print(f"\n{'':52}{'examples/s':>26}   times create_pretraining_data")
    missed = [] if base else [f"{GARDEN}, to compare with, is not there"]
    for name, values in speeds.items():
        what, library = name.split(" ", 1)
        said = f"{TITLES[what]}, {library} {modes[library]}"
        ratio = [own / theirs for own, theirs in zip(values, base or values, strict=True)]
        print(f"{said:52}{spread(values, 0):>26}" + (f"   {spread(ratio)}" if base else ""))
        if base and library == OURS and statistics.median(ratio) < TARGETS[what]:
            missed.append(f"{said}: {statistics.median(ratio):.1f} times create_pretraining_data")
    return missed


if __name__ == "__main__":
    app.run(main)
