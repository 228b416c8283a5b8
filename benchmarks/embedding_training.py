r"""Losses and throughput of training on pairs of texts here and in sentence-transformers.

    python -m benchmarks.embedding_training --model=all-MiniLM-L6-v2 --output=runs/embedding \
        --peer=/path/of/an/environment/bin/python --precision=mixed_bfloat16 \
        --train=train.en,train.de --test=test_2016_flickr.en,test_2016_flickr.de

Each file has one text per line; equal lines form a pair. Both libraries train the same folder of
sentence-transformers with in-batch negatives (temperature 0.05), AdamW, a learning rate that rises
over a tenth of the steps and decays to 0, and at most 64 tokens.

Losses are compared in float32 without dropout, on one batch in each step, so that the order of its
pairs has no effect. Throughput is measured with dropout 0.1, from the end of the fifth step, in
turns. The peer is a loop with its model, its loss and its tokenizer. Results in --output are
reused.
"""

import json
import os
import subprocess
import sys

from absl import flags

from benchmarks.cached import cached, format_scores
from keras_attn.cli.command_line import run_command

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Folder of sentence-transformers, a BERT.", required=True)
flags.DEFINE_string("output", None, "Folder of the runs and their results.", required=True)
flags.DEFINE_string("peer", None, "Python with sentence-transformers.", required=True)
flags.DEFINE_list("train", None, "Two files with the training pairs.", required=True)
flags.DEFINE_list("test", None, "Two files with the test pairs.", required=True)
flags.DEFINE_integer("steps", 100, "Steps of each run.", lower_bound=10)
flags.DEFINE_integer("batch_size", 64, "Pairs per step.")
flags.DEFINE_integer("seeds", 5, "Runs of each library.", lower_bound=2)
flags.DEFINE_float("learning_rate", 1e-4, "Peak learning rate.")
flags.DEFINE_enum(
    "precision", "float32", ["float32", "mixed_bfloat16"], "Precision of the timed runs."
)

LENGTH, TEMPERATURE, WARMUP, UNTIMED = 64, 0.05, 0.1, 5


def main():
    same = {
        name: run(name, "losses", 0, FLAGS.batch_size, 20, 0.0, "float32") for name in LIBRARIES
    }
    ours, theirs = (result["loss"] for result in same.values())
    apart = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print(f"loss from {theirs[0]:.4f} to {theirs[-1]:.4f} in {len(ours)} steps: ", end="")
    print(f"differences of at most {apart:.1e}, {abs(ours[0] - theirs[0]):.1e} in the first step")
    found = {name: [] for name in LIBRARIES}
    for seed in range(FLAGS.seeds):
        for name in LIBRARIES:
            rows = FLAGS.batch_size * FLAGS.steps
            found[name].append(run(name, "timed", seed, rows, FLAGS.steps, 0.1, FLAGS.precision))
    print("| | MRR | pairs/s |\n|---|---|---|")
    for name, runs in found.items():
        mrr = format_scores([100 * result["mrr"] for result in runs])
        print(f"| {name} | {mrr} | {format_scores([throughput(result) for result in runs])} |")


def throughput(result):
    seconds = result["seconds"]
    return FLAGS.batch_size * (len(seconds) - UNTIMED) / (seconds[-1] - seconds[UNTIMED - 1])


def run(library, kind, seed, rows, steps, dropout, precision):
    """Returns the loss and the end of each step, and the MRR on the test pairs."""
    options = {
        "model": FLAGS.model,
        "seed": seed,
        "steps": steps,
        "dropout": dropout,
        "learning_rate": FLAGS.learning_rate,
        "warmup_fraction": WARMUP,
        "batch_size": FLAGS.batch_size,
        "temperature": TEMPERATURE,
        "length": LENGTH,
    }
    settings = {**options, "precision": precision, "train": FLAGS.train, "test": FLAGS.test}
    folder = f"{FLAGS.output}/{kind}/{library}/seed-{seed}"

    def trained():
        os.makedirs(folder, exist_ok=True)
        files = {
            "train": write_pairs(FLAGS.train, f"{folder}/train.jsonl", seed * rows, rows),
            "test": write_pairs(FLAGS.test, f"{folder}/test.jsonl"),
        }
        return LIBRARIES[library](folder, {**options, **files}, precision)

    return cached(f"{folder}/found.json", settings, trained)


def write_pairs(files, path, first=0, number=None):
    """Writes pairs of the lines of two files as JSONL."""
    columns = []
    for file in files:
        with open(file, encoding="utf-8") as lines:
            columns.append(lines.read().splitlines())
    stop = None if number is None else first + number
    with open(path, "w", encoding="utf-8") as file:
        for source, target in list(zip(*columns, strict=True))[first:stop]:
            file.write(json.dumps({"source": source, "target": target}) + "\n")
    return path


def train_here(folder, options, precision):
    fields = {
        "data.train": options["train"],
        "data.validation": options["test"],
        "data.text": "source",
        "data.text_pair": "target",
        "data.format": "jsonl",
        "data.length": LENGTH,
        "model.dropout": options["dropout"],
        "train.precision": precision,
        "train.seed": options["seed"],
        **{f"train.{name}": options[name] for name in SHARED},
    }
    command = [
        *(sys.executable, "-m", "finetune", "--config=embedding", f"--workdir={folder}"),
        f"--pretrained={options['model']}",
        *(f"--config.{name}={value}" for name, value in fields.items()),
    ]
    logged(command, folder)
    with open(f"{folder}/metrics.jsonl") as file:
        lines = [line for line in map(json.loads, file) if "loss" in line]
    with open(f"{folder}/results.json") as file:
        mrr = json.load(file)["mrr"]
    return {"mrr": mrr, **{name: [line[name] for line in lines] for name in ("loss", "seconds")}}


SHARED = ("steps", "learning_rate", "warmup_fraction", "batch_size", "temperature")


def train_there(folder, options, precision):
    results = f"{folder}/results.json"
    options |= {"bfloat16": precision == "mixed_bfloat16", "results": results}
    with open(f"{folder}/options.json", "w") as file:
        json.dump(options, file)
    module = "benchmarks.contenders.embedding.sentence_transformers"
    logged([FLAGS.peer, "-m", module, file.name], folder)
    with open(results) as file:
        return json.load(file)


def logged(command, folder):
    with open(f"{folder}/log", "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log)


LIBRARIES = {"keras-attn": train_here, "sentence-transformers": train_there}

if __name__ == "__main__":
    run_command(main, __doc__)
