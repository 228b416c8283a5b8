"""Accuracy after finetuning: pretrained, from random weights, and a bag of bigrams.

Of BERT, and with --kinds=pretrained of GPT-2 and XLNet, where --pooling=cls is the last token.

    python -m benchmarks.finetuned_accuracy --pretrained=runs/mini --output=runs/accuracy \
        --sets='SST-2=glue/SST-2/train.tsv,glue/SST-2/dev.tsv;TREC=TREC.train.all,TREC.test.all;MR=rt-polarity.all'

A set of one file has a tenth held out as its test, for each seed another, so that the interval
holds the chance of the test as well. Each seed draws other rows, and all kinds learn from the same
ones: how far the first is ahead is told by seeds, too. Settings are the same for all sets and were
chosen by rows of the training files, not by the test. What is in --output already is not run again.
"""

import contextlib
import hashlib
import io
import json
import os
from functools import partial

from absl import flags

from benchmarks.kept import kept, told
from benchmarks.labelled_sets import read
from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError

KINDS = ["pretrained", "random weights", "bag of bigrams"]

FLAGS = flags.FLAGS
flags.DEFINE_string("pretrained", None, "Workdir to start from.", required=True)
flags.DEFINE_string("output", None, "Folder of all runs.", required=True)
flags.DEFINE_string("sets", None, "NAME=FILE,TEST;NAME=FILE;…; .tsv with a header, else a label "
                    "and a text a line.", required=True)
flags.DEFINE_list("rows", ["1000", "5000", "all"], "Training rows.")
flags.DEFINE_multi_enum("kinds", KINDS, KINDS, "Of these.")
flags.DEFINE_integer("seeds", 5, "Runs of each kind.", lower_bound=2)
flags.DEFINE_string("encoding", "latin-1", "Of the files without header.")
flags.DEFINE_enum("pooling", "mean", ["mean", "cls"], "See model.pooling.")
flags.DEFINE_float("learning_rate", 1e-3, "Peak, of all.")
flags.DEFINE_integer("seen", 10_000, "Texts to learn from, again and again; at least two epochs.")
flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"],
                  "The latter where the processor has it.")


def main():
    if "random weights" in FLAGS.kinds and not pretrained_is_bert():
        raise UserError("Only of BERT are there random weights: --kinds=pretrained. "
                        f"Received: {FLAGS.pretrained}")
    heads = [*FLAGS.kinds, *(f"ahead of {kind}" for kind in FLAGS.kinds[1:])]
    print(f"| | rows | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    for given in FLAGS.sets.split(";"):
        name, _, files = given.partition("=")
        splits = [read(files.split(","), FLAGS.encoding, seed) for seed in range(FLAGS.seeds)]
        most = len(splits[0][0])
        for rows in FLAGS.rows:
            count = most if rows == "all" else int(rows)
            if count > most:
                continue
            first, *others = (scores(name, splits, count, kind) for kind in FLAGS.kinds)
            ahead = [[a - b for a, b in zip(first, other, strict=True)] for other in others]
            cells = " | ".join(map(told, [first, *others, *ahead]))
            print(f"| {name} | {count:,} | {cells} |", flush=True)


def scores(name, splits, count, kind):
    """Of each seed, which is the number of its split, in percent."""
    folder = os.path.join(FLAGS.output, f"{name}-{count}", kind.replace(" ", "-"))
    run = bag_of_bigrams if kind == "bag of bigrams" else classifier
    found = []
    for seed, tables in enumerate(splits):
        settings = {"rate": FLAGS.learning_rate, "seen": FLAGS.seen, "precision": FLAGS.precision,
                    "pooling": FLAGS.pooling, "pretrained": weights_of_pretrained(),
                    "rows": sha256_of(tables)}
        path = f"{folder}/seed-{seed}"
        found.append(100 * kept(f"{path}/accuracy.json", settings, partial(
            run, path, tables, count, kind, seed)))
    return found


def pretrained_is_bert():
    from keras_attn.convert import family_name

    return family_name(FLAGS.pretrained) in (None, "bert")


def weights_of_pretrained():
    """SHA-256 of the weights that the pretrained ones start from."""
    with open(os.path.join(FLAGS.pretrained, "results.json")) as file:
        return json.load(file)["weights_sha256"]


def sha256_of(tables):
    rows = [[list(table.texts), list(table.labels)] for table in tables]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def bag_of_bigrams(folder, tables, count, kind, seed):
    from keras_attn.tasks.classification.baseline import bag_of_bigrams_accuracy
    from keras_attn.tasks.finetuning.choices import rows_drawn

    train = tables[0].take(rows_drawn(len(tables[0]), count, seed))
    return bag_of_bigrams_accuracy(train.texts, train.labels, tables[1].texts, tables[1].labels)


def classifier(folder, tables, count, kind, seed):
    from keras_attn import finetune
    from keras_attn.defaults import finetuning_defaults

    train, test = written(tables, os.path.join(FLAGS.output, "rows", sha256_of(tables)[:16]))
    config = finetuning_defaults()
    config.data.update(train=train, validation=test, text="text", label="label", limit=count,
                       seed=seed, length=64, by_length=False)
    if pretrained_is_bert():
        config.data.update(pack=8, vocab=f"{FLAGS.pretrained}/vocab.txt")
        config.model.update(
            architecture_of(FLAGS.pretrained, config.model) if kind != "pretrained" else {})
    config.model.update(pooling=FLAGS.pooling, new_heads=True)  # BERTs may have no pooler
    config.eval.report = False
    config.train.update(epochs=max(FLAGS.seen / count, 2.0), batch_size=32,
                        learning_rate=FLAGS.learning_rate, seed=seed, precision=FLAGS.precision,
                        jit=FLAGS.precision == "float32")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        results = finetune(config, folder, FLAGS.pretrained if kind == "pretrained" else None)
    return results["accuracy"]


def written(tables, folder):
    """Files of both tables, the same for every run."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"{split}.jsonl") for split in ("train", "test")]
    for path, table in zip(paths, tables, strict=True):
        if not os.path.exists(path):
            with open(f"{path}.unfinished", "w") as file:
                for text, label in zip(table.texts, table.labels, strict=True):
                    file.write(json.dumps({"text": text, "label": label}) + "\n")
            os.replace(f"{path}.unfinished", path)
    return paths


def architecture_of(folder, known):
    """Those of the known fields that make a classifier of the same architecture."""
    with open(os.path.join(folder, "config.json")) as file:
        fields = json.load(file)["config"]["model"]
    return {name: value for name, value in fields.items()
            if name in known and name != "dropout" and value is not None}


if __name__ == "__main__":
    run_command(main, __doc__)
