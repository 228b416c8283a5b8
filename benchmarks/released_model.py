r"""Accuracy and total time of finetuning a released model here and in transformers.

    python -m benchmarks.released_model --model=all-MiniLM-L6-v2 --output=runs/released \
        --rows=1000 --peer=/path/of/an/environment/bin/python \
        --sets='TREC=TREC.train.all,TREC.test.all;WNUT17=train.conll,dev.conll'

.conll and .conllu files are tagging sets (F1 of entities, or accuracy of other tags), other files
are classified. Both libraries train on the same rows with the same precision and hyperparameters:
AdamW, batches of 32, at most 128 tokens, dropout 0.1, a learning rate that rises over a tenth of
the steps and decays to 0. The peer is a loop as in the examples of transformers, with dynamic
padding. The time is that of the whole command, from imports to the last metric, and here also the
report and its baselines. The libraries take turns; results in --output are reused.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial

from absl import flags

from benchmarks.cached import cached, format_scores
from benchmarks.labelled_sets import read
from keras_attn.cli.command_line import run_command

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Folder of the released BERT.", required=True)
flags.DEFINE_string("output", None, "Folder of the runs and their results.", required=True)
flags.DEFINE_string("peer", None, "Python of an environment with transformers.", required=True)
flags.DEFINE_string("sets", None, "NAME=TRAIN,TEST;NAME=TRAIN,TEST;…", required=True)
flags.DEFINE_integer("rows", 1000, "Number of training rows, other ones for each seed.")
flags.DEFINE_integer("seeds", 5, "Runs of each contender.", lower_bound=2)
flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
flags.DEFINE_float("epochs", 3.0, "Epochs.")
flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16"], "The peer autocasts to bfloat16."
)
flags.DEFINE_multi_string("contenders", None, "Only these.")

BATCH, LENGTH, DROPOUT = 32, 128, 0.1
# Fields of our runs besides the shared ones, by task.
OURS = {
    "classification": {
        "keras-attn, [CLS]": {"model.pooling": "cls"},
        "keras-attn, mean": {"model.pooling": "mean"},
    },
    "tagging": {"keras-attn": {}, "keras-attn, CRF": {"model.crf": True}},
}
PEER = "transformers"


def main():
    print("| set | | score | seconds |\n|---|---|---|---|")
    for given in FLAGS.sets.split(";"):
        name, _, files = given.partition("=")
        task = "tagging" if ".conll" in files else "classification"
        names = [*OURS[task], PEER]
        if FLAGS.contenders:
            names = [contender for contender in names if contender in FLAGS.contenders]
        found = {contender: [] for contender in names}
        parent = f"{FLAGS.output}/{name}-{FLAGS.rows}-{FLAGS.precision}"
        for seed in range(FLAGS.seeds):
            paths = write_rows(parent, task, files.split(","), seed)
            for contender in names:
                folder = f"{parent}/{contender}/seed-{seed}"
                run = partial(train, task, contender, paths, folder, seed)
                settings = {
                    "learning_rate": FLAGS.learning_rate,
                    "epochs": FLAGS.epochs,
                    "model": os.path.basename(FLAGS.model.rstrip("/")),
                    "set": given,
                }
                found[contender].append(cached(f"{folder}/score.json", settings, run))
        for contender, runs in found.items():
            scores = format_scores([100 * run["score"] for run in runs])
            print(
                f"| {name} | {contender} | {scores} | "
                f"{format_scores([run['seconds'] for run in runs])} |",
                flush=True,
            )


def write_rows(parent, task, files, seed):
    """Writes the rows of a seed as JSONL; returns the paths of the training and the test rows."""
    from keras_attn.tasks.finetuning.choices import rows_drawn
    from keras_attn.tasks.tagging.sentences import read_sentences

    columns = columns_of(task)
    if task == "tagging":
        sentences = [read_sentences(path).rows for path in files]
        splits = [[(row.words, row.tags) for row in rows] for rows in sentences]
    else:
        splits = [list(zip(t.texts, t.labels, strict=True)) for t in read(files, seed=seed)]
    train = [splits[0][row] for row in rows_drawn(len(splits[0]), FLAGS.rows, seed)]
    folder = f"{parent}/rows"
    os.makedirs(folder, exist_ok=True)
    paths = [f"{folder}/{split}-{seed}.jsonl" for split in ("train", "test")]
    for path, rows in zip(paths, (train, splits[1]), strict=True):
        with open(path, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
    return paths


def columns_of(task):
    return ("words", "tags") if task == "tagging" else ("text", "label")


def train(task, contender, paths, folder, seed):
    """Returns the score of a run and the seconds of its command."""
    os.makedirs(folder, exist_ok=True)
    command = peer_command if contender == PEER else our_command
    begin = time.perf_counter()
    with open(f"{folder}/log", "w") as log:
        subprocess.run(
            command(task, contender, paths, folder, seed), check=True, stdout=log, stderr=log
        )
    seconds = time.perf_counter() - begin
    with open(f"{folder}/results.json") as file:
        results = json.load(file)
    entities = task == "tagging" and "f1" in results
    return {"score": results["f1" if entities else "accuracy"], "seconds": seconds}


def our_command(task, contender, paths, folder, seed):
    text, label = columns_of(task)
    fields = {
        "data.train": paths[0],
        "data.validation": paths[1],
        "data.text": text,
        "data.label": label,
        "data.format": "jsonl",
        "data.length": LENGTH,
        "model.dropout": DROPOUT,
        "train.learning_rate": FLAGS.learning_rate,
        "train.epochs": FLAGS.epochs,
        "train.batch_size": BATCH,
        "train.warmup_fraction": 0.1,
        "train.precision": FLAGS.precision,
        "train.seed": seed,
        **OURS[task][contender],
    }
    config = "tagging" if task == "tagging" else "classify"
    return [
        *(sys.executable, "-m", "finetune", f"--config={config}", f"--workdir={folder}"),
        f"--pretrained={FLAGS.model}",
        *(f"--config.{name}={value}" for name, value in fields.items()),
    ]


def peer_command(task, contender, paths, folder, seed):
    options = {
        "task": task,
        "columns": columns_of(task),
        "model": FLAGS.model,
        "train": paths[0],
        "test": paths[1],
        "results": f"{folder}/results.json",
        "learning_rate": FLAGS.learning_rate,
        "epochs": FLAGS.epochs,
        "batch_size": BATCH,
        "length": LENGTH,
        "dropout": DROPOUT,
        "bfloat16": FLAGS.precision == "mixed_bfloat16",
        "seed": seed,
    }
    with open(f"{folder}/options.json", "w") as file:
        json.dump(options, file)
    return [FLAGS.peer, "-m", "benchmarks.contenders.released.hugging_face", file.name]


if __name__ == "__main__":
    run_command(main, __doc__)
