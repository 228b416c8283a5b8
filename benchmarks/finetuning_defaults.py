r"""Compares finetuning without any flag with the best run of a hyperparameter sweep.

    python -m benchmarks.finetuning_defaults --data=DATA --output=runs/defaults \
        --models='mini, 10 minutes=runs/mini10;random mini=size:mini'

DATA is a folder with `glue/SST-2`, `glue/CoLA`, `glue/RTE` and `sentences` (TREC, SUBJ, MR). Each
cell is a data set, a number of training examples and a model. The default run sets only the data,
the model and the seed; the sweep multiplies the default learning rate by each of --rates and the
default number of epochs by each of --epochs. The best run of the sweep is selected by its mean over
seeds on the same validation set that it is measured on; this selection bias favors the sweep.
With --alternative, each of these values of a field is compared with the default instead; with
--nosweep, the default runs of all models are compared with each other and with a bag of bigrams.
Results in --output are reused.
"""

import contextlib
import io
import itertools
import json
import os
import shutil
import statistics

from absl import flags

from benchmarks.cached import cached, format_scores
from keras_attn.cli.command_line import run_command

SETS = {
    "SST-2": {"task": "sst2", "train": "glue/SST-2/train.tsv", "validation": "glue/SST-2/dev.tsv"},
    "CoLA": {"task": "cola", "train": "glue/CoLA/train.tsv", "validation": "glue/CoLA/dev.tsv"},
    "RTE": {"task": "rte", "train": "glue/RTE/train.tsv", "validation": "glue/RTE/dev.tsv"},
    "TREC": {"train": "sentences/TREC.train.all", "validation": "sentences/TREC.test.all"},
    "SUBJ": {"train": "sentences/subj.all"},
    "MR": {"train": "sentences/rt-polarity.all"},
}

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "Folder with glue/ and sentences/.", required=True)
flags.DEFINE_string("output", None, "Folder of the results.", required=True)
flags.DEFINE_string(
    "models",
    None,
    "NAME=WORKDIR;NAME=size:SIZE;NAME=family:FAMILY;…: pretrained weights, or random weights of a "
    "BERT or another family.",
    required=True,
)
flags.DEFINE_list("sets", list(SETS), "Data sets.")
flags.DEFINE_list("rows", ["200", "1000", "5000", "all"], "Numbers of training examples.")
flags.DEFINE_integer("seeds", 2, "Runs per setting.", lower_bound=1)
flags.DEFINE_list("rates", ["0.3", "1", "3"], "Factors of the default learning rate.")
flags.DEFINE_list("epochs", ["1", "3"], "Factors of the default number of epochs.")
flags.DEFINE_bool("sweep", True, "Whether to compare with a sweep.")
flags.DEFINE_multi_string("alternative", [], "FIELD=VALUE: a value other than the default.")
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "Precision of all runs.")


def main():
    models = [pair.split("=", 1) for pair in FLAGS.models.split(";")]
    cells = itertools.product(models, FLAGS.sets, FLAGS.rows)
    if FLAGS.alternative:
        print("| model | set | examples | default | field | accuracy − default |")
        print("|---|---|---|---|---|---|")
        for (model, source), name, rows in cells:
            alternatives(model, source, name, rows)
        return
    if not FLAGS.sweep:
        compare(models)
        return
    print("accuracy in %: default, best of the sweep, and the factors of rate and epochs there\n")
    print(
        "| model | set | examples | bag of bigrams | default | best of sweep | rate | epochs | "
        "default − best |\n|---|---|---|---|---|---|---|---|---|"
    )
    for (model, source), name, rows in cells:
        cell(model, source, name, rows)


def alternatives(model, source, name, rows):
    """Prints a row for each alternative, if the data set has that many training examples."""
    default, first = mean(model, source, name, rows)
    if first["count"] is None:
        return
    for alternative in FLAGS.alternative:
        accuracy, _ = mean(model, source, name, rows, alternative=alternative)
        print(
            f"| {model} | {name} | {first['count']:,} | {100 * default:.1f} | `{alternative}` | "
            f"{100 * (accuracy - default):+.1f} |",
            flush=True,
        )


def compare(models):
    """Prints the accuracies and training times of the default runs of all models."""
    print("accuracy in %; training time in s\n")
    print(f"| set | examples | bag of bigrams | {' | '.join(model for model, _ in models)} |")
    print("|---|---|---|" + "---|" * len(models))
    for name, rows in itertools.product(FLAGS.sets, FLAGS.rows):
        found = [
            [run(model, source, name, rows, seed) for seed in range(FLAGS.seeds)]
            for model, source in models
        ]
        count = found[0][0]["count"]
        if count is None:
            continue
        bigrams = format_scores([100 * result["bag_of_bigrams"] for result in found[0]])
        columns = [
            f"{format_scores([100 * result['accuracy'] for result in results])}; "
            f"{statistics.median(result['seconds'] for result in results):.0f}"
            for results in found
        ]
        print(f"| {name} | {count:,} | {bigrams} | {' | '.join(columns)} |", flush=True)


def mean(model, source, name, rows, rate=1.0, epochs=1.0, alternative=""):
    """Returns the mean accuracy of all seeds, and the results of the first."""
    runs = [
        run(model, source, name, rows, seed, rate, epochs, alternative)
        for seed in range(FLAGS.seeds)
    ]
    return sum(found["accuracy"] for found in runs) / len(runs), runs[0]


def cell(model, source, name, rows):
    """Prints the row of a cell, if the data set has that many training examples."""
    default, first = mean(model, source, name, rows)
    if first["count"] is None:
        return
    settings = [tuple(map(float, pair)) for pair in itertools.product(FLAGS.rates, FLAGS.epochs)]
    sweep = {setting: mean(model, source, name, rows, *setting)[0] for setting in settings}
    best = max(sweep, key=sweep.get)
    print(
        f"| {model} | {name} | {first['count']:,} | {100 * first['bag_of_bigrams']:.1f} | "
        f"{100 * default:.1f} | {100 * sweep[best]:.1f} | {best[0]:g} | {best[1]:g} | "
        f"{100 * (default - sweep[best]):+.1f} |",
        flush=True,
    )


def run(model, source, name, rows, seed, rate=1.0, epochs=1.0, alternative=""):
    """Returns the results of one run; `count` is None if the data set has fewer examples."""
    setting = alternative or f"rate-{rate:g}-epochs-{epochs:g}"
    folder = os.path.join(FLAGS.output, model, name, rows, setting)
    settings = {"source": source, "precision": FLAGS.precision}
    return cached(
        os.path.join(folder, f"seed-{seed}", "result.json"),
        settings,
        lambda: finetune_once(
            f"{folder}/seed-{seed}/run", source, name, rows, seed, rate, epochs, alternative
        ),
    )


def finetune_once(workdir, source, name, rows, seed, rate, epochs, alternative):
    from keras_attn import finetune
    from keras_attn.io.json_files import read_json

    config, count = config_of(name, rows, seed, source)
    if count is None:
        return {"count": None, "accuracy": 0.0}
    pretrained = None if source.startswith(("size:", "family:")) else source
    config.train.precision = FLAGS.precision
    if alternative:
        field, value = alternative.split("=", 1)
        with contextlib.suppress(ValueError):
            value = json.loads(value)
        config.update_from_flattened_dict({field: value})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if (rate, epochs) != (1.0, 1.0):  # factors of the values that the default run chose
            chosen = default_result(name, rows, seed, source)
            config.train.learning_rate = rate * chosen["learning_rate"]
            config.train.epochs = epochs * chosen["epochs"]
        results = finetune(config, workdir, pretrained)
    train = read_json(f"{workdir}/config.json")["config"]["train"]
    shutil.rmtree(workdir)  # thousands of runs would fill a disk
    return {
        "count": count,
        "accuracy": results["micro"]["f1"],
        "seconds": results["seconds"],
        "bag_of_bigrams": results["to_beat"]["bag_of_bigrams"],
        "learning_rate": train["learning_rate"],
        "epochs": train["epochs"],
    }


def default_result(name, rows, seed, source):
    model = next(
        pair.split("=", 1)[0] for pair in FLAGS.models.split(";") if pair.split("=", 1)[1] == source
    )
    return run(model, source, name, rows, seed)


def config_of(name, rows, seed, source):
    """Returns a config of data, model and seed, and the number of training examples or None."""
    from keras_attn.defaults import finetuning_defaults, select_family

    config = finetuning_defaults()
    data = {
        key: value if key == "task" else os.path.join(FLAGS.data, value)
        for key, value in SETS[name].items()
    }
    if "task" not in data:
        data.update(format="label_text", encoding="latin-1")
    config.data.update(data)
    with open(data["train"], encoding="latin-1") as file:
        most = sum(1 for _ in file) - (name in ("SST-2", "RTE"))
    if "validation" not in data:
        most -= round(config.data.holdout * most)
    count = most if rows == "all" else int(rows)
    if rows != "all":
        config.data.limit = count
    config.train.seed = seed
    config.eval.report = False
    kind, _, value = source.partition(":")
    if kind == "family":
        select_family(config, value)
    elif kind == "size":
        config.model.size = value
    return config, count if count <= most else None


if __name__ == "__main__":
    run_command(main, __doc__)
