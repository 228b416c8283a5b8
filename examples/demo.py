"""Pretrains a small BERT on the docstrings installed with Python, and evaluates it.

    make demo          or: python examples/demo.py [--minutes=4] [--labels=200] [--seeds=5]

Classifiers that predict which package a docstring comes from are finetuned from the pretrained and
from random weights, with several seeds and training subsets. Finished runs are reused, until other
packages are installed or the default of a config field changes.
"""

import contextlib
import hashlib
import io
import os
import sys
import time

import numpy as np
from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.cli.config_files import find_config, load_config

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "workdir",
    None,
    "Folder of all results; default: a folder in runs/, named "
    "after a hash of the data and the config.",
)
flags.DEFINE_float("minutes", 4.0, "Minutes of pretraining.")
flags.DEFINE_integer("labels", 200, "Number of labelled examples for finetuning.")
flags.DEFINE_integer("seeds", 5, "Number of classifiers of each kind.", lower_bound=2)


def main():
    from keras_attn.data.sources.docstrings import fingerprint
    from keras_attn.defaults import fields

    begin = time.monotonic()
    inputs = f"{fingerprint()} {list(fields(load_config(*find_config('bert_tiny'))))}"
    name = hashlib.sha256(inputs.encode()).hexdigest()[:6]
    FLAGS.workdir = FLAGS.workdir or f"runs/docstrings-{name}"
    print(f"1. pretraining bert_tiny for {FLAGS.minutes:g} minutes\n")
    pretrained = pretrain()
    print(
        f"\n2. finetuning {FLAGS.seeds} classifiers of each kind "
        f"on {FLAGS.labels} labelled examples\n"
    )
    scores = {
        "BERT, pretrained": classify("pretrained", pretrained_folder()),
        "BERT, from scratch": classify("scratch", None),
        "bag of bigrams, logistic regression": bag_of_bigrams(),
    }
    report(pretrained, unigram_baseline(), scores, time.monotonic() - begin)


def pretrained_folder():
    return f"{FLAGS.workdir}/pretrained-{FLAGS.minutes:g}-minutes"


def classifier_folder(kind, seed):
    start = os.path.basename(pretrained_folder()) if kind == "pretrained" else kind
    return f"{FLAGS.workdir}/{FLAGS.labels}-labels/{start}/seed-{seed}"


def pretrain():
    from keras_attn import pretrain

    config = load_config(*find_config("bert_tiny"))
    config.train.minutes = FLAGS.minutes
    config.train.jit = True
    return pretrain(config, workdir=pretrained_folder())


def unigram_baseline():
    """Returns the masked-LM accuracy and perplexity of predicting by token frequency alone."""
    from keras_attn.convert import read_ready
    from keras_attn.data.shards.shard_files import read_index, read_shard
    from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples

    folder = f"{pretrained_folder()}/data"
    saved = read_ready(pretrained_folder())
    counts = np.ones(saved.tokenizer.vocabulary_size)
    for shard in read_index(f"{folder}/train")["shards"]:
        ids = read_shard(f"{folder}/train/{shard['file']}").ids
        counts += np.bincount(ids, minlength=len(counts))
    held_out = PretrainingExamples(f"{folder}/validation", saved.tokenizer, exact=True)
    rows = held_out.rows(0, held_out.num_examples)
    targets = rows["mask_ids"][rows["mask_weights"] > 0]
    frequencies = counts / counts.sum()
    return np.mean(targets == np.argmax(counts)), np.exp(-np.mean(np.log(frequencies[targets])))


def classify(kind, pretrained):
    """Returns the accuracies of classifiers with different seeds and training subsets."""
    from keras_attn import finetune

    accuracies = []
    for seed in range(FLAGS.seeds):
        config = load_config(*find_config("docstrings"))
        config.data.limit = FLAGS.labels
        config.data.vocab = f"{pretrained_folder()}/vocab.txt"
        config.train.epochs = 20.0
        config.train.seed = seed
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            results = finetune(config, classifier_folder(kind, seed), pretrained)
        accuracies.append(results["accuracy"])
        print(f"{kind}, seed {seed}: accuracy {results['accuracy']:.3f}", flush=True)
    return accuracies


def bag_of_bigrams():
    from keras_attn.data.sources.docstrings import labelled_docstrings
    from keras_attn.tasks.classification.baseline import bag_of_bigrams_accuracy
    from keras_attn.tasks.finetuning.choices import rows_drawn

    texts, labels = (np.array(column) for column in labelled_docstrings("train"))
    draws = (rows_drawn(len(texts), FLAGS.labels, seed) for seed in range(FLAGS.seeds))
    return [
        bag_of_bigrams_accuracy(
            list(texts[rows]), list(labels[rows]), *labelled_docstrings("validation")
        )
        for rows in draws
    ]


def report(pretrained, baseline, scores, seconds):
    from keras_attn.tasks.finetuning.seed_statistics import mean_interval

    print(f"\nResults on held-out docstrings, after {seconds / 60:.0f} minutes in total:\n")
    print(f"{'masked tokens':38}{'accuracy':>10}{'perplexity':>12}")
    print(f"{'token frequency':38}{baseline[0]:10.3f}{baseline[1]:12.1f}")
    perplexity = np.exp(pretrained["mlm_loss"])
    print(f"{'BERT':38}{pretrained['mlm_accuracy']:10.3f}{perplexity:12.1f}")
    print(f"\n{'next sentence':38}{'accuracy':>10}")
    print(f"{'BERT':38}{pretrained['nsp_accuracy']:10.3f}")
    print(f"\n{f'package ({FLAGS.labels} labels)':38}{'accuracy':>10}{'95 % interval':>16}")
    for name, values in scores.items():
        mean, half = mean_interval(values)
        print(f"{name:38}{mean:10.3f}{f'± {half:.3f}':>16}")
    print(f"""
Next steps:
    {python()} -m finetune.predict --text='Returns the tensor.' \\
        --workdir={classifier_folder("pretrained", 0)}
    {python()} -m pretrain --workdir=runs/mine --config.data.train='books/*.txt'
    {python()} -m finetune --pretrained={pretrained_folder()} --workdir=runs/labels \\
        --config.data.train=train.csv --config.data.validation=valid.csv \\
        --config.data.text=review --config.data.label=stars""")


def python():
    return os.path.relpath(sys.executable) if ".venv" in sys.executable else "python"


if __name__ == "__main__":
    run_command(main, __doc__)
