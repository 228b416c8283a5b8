r"""Accuracy after finetuning: pretrained and random weights, and a bag-of-bigrams baseline.

Measures BERT or, with --kinds=pretrained, GPT-2 and XLNet, whose --pooling=cls is the last token.

    python -m benchmarks.finetuned_accuracy --pretrained=runs/mini --output=runs/accuracy \
        --sets='SST-2=glue/SST-2/train.tsv,glue/SST-2/dev.tsv;TREC=TREC.train.all,TREC.test.all;MR=rt-polarity.all'

If a data set is a single file, a tenth of it is held out as its test set, a different one for each
seed, so that the confidence interval includes the variance of the test set. Each seed draws other
training examples, which all kinds of model share, so that differences are paired by seed. The
distilled model is the pretrained one, trained with the logits of --teacher, which is finetuned on
the same examples with the defaults of `python -m finetune` before. The other
hyperparameters are the same for all sets and were selected on the training files, not on the test
sets. Results in --output are reused.
"""

import contextlib
import hashlib
import io
import json
import os
from functools import partial

from absl import flags

from benchmarks.cached import cached, format_scores
from benchmarks.labelled_sets import read
from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError

KINDS = ["pretrained", "random weights", "bag of bigrams"]
DISTILLED = ["distilled", "teacher"]

FLAGS = flags.FLAGS
flags.DEFINE_string("pretrained", None, "Workdir with the pretrained weights.", required=True)
flags.DEFINE_string("output", None, "Folder of the runs and their results.", required=True)
flags.DEFINE_string(
    "sets",
    None,
    "NAME=FILE,TEST;NAME=FILE;…: .tsv files with a header, or "
    "files with a label and a text per line.",
    required=True,
)
flags.DEFINE_list("rows", ["1000", "5000", "all"], "Numbers of training examples.")
flags.DEFINE_multi_enum("kinds", KINDS, KINDS + DISTILLED, "Kinds of model.")
flags.DEFINE_string("teacher", None, "Pretrained weights of the teacher, for --kinds=distilled.")
flags.DEFINE_integer("seeds", 5, "Runs per kind.", lower_bound=2)
flags.DEFINE_string("encoding", "latin-1", "Encoding of the files without a header.")
flags.DEFINE_enum("pooling", "mean", ["mean", "cls"], "See model.pooling.")
flags.DEFINE_float("learning_rate", 1e-3, "Peak learning rate of all runs.")
flags.DEFINE_integer(
    "seen", 10_000, "Training examples seen in a run, repeats included; at least two epochs."
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "mixed_bfloat16 is for processors that support it.",
)


def main():
    if "random weights" in FLAGS.kinds and not pretrained_is_bert():
        raise UserError(
            "Random weights are supported for BERT only. Set --kinds=pretrained. "
            f"Received: --pretrained={FLAGS.pretrained}"
        )
    heads = [*FLAGS.kinds, *(f"difference to {kind}" for kind in FLAGS.kinds[1:])]
    print(f"| | examples | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    for given in FLAGS.sets.split(";"):
        name, _, files = given.partition("=")
        splits = [read(files.split(","), FLAGS.encoding, seed) for seed in range(FLAGS.seeds)]
        most = len(splits[0][0])
        for rows in FLAGS.rows:
            count = most if rows == "all" else int(rows)
            if count > most:
                continue
            first, *others = (scores(name, splits, count, kind) for kind in FLAGS.kinds)
            differences = [[a - b for a, b in zip(first, other, strict=True)] for other in others]
            cells = " | ".join(map(format_scores, [first, *others, *differences]))
            print(f"| {name} | {count:,} | {cells} |", flush=True)


def scores(name, splits, count, kind):
    """Returns the accuracy of each seed, which is also the index of its split, in percent."""
    folder = os.path.join(FLAGS.output, f"{name}-{count}", kind.replace(" ", "-"))
    run = {"bag of bigrams": bag_of_bigrams, "teacher": teacher}.get(kind, classifier)
    found = []
    for seed, tables in enumerate(splits):
        settings = {
            "rate": FLAGS.learning_rate,
            "seen": FLAGS.seen,
            "precision": FLAGS.precision,
            "pooling": FLAGS.pooling,
            "pretrained": weights_of_pretrained(),
            "rows": sha256_of(tables),
            **({"teacher": FLAGS.teacher} if kind in DISTILLED else {}),
        }
        path = f"{folder}/seed-{seed}"
        found.append(
            100
            * cached(
                f"{path}/accuracy.json", settings, partial(run, path, tables, count, kind, seed)
            )
        )
    return found


def pretrained_is_bert():
    from keras_attn.convert import family_name

    return family_name(FLAGS.pretrained) in (None, "bert")


def weights_of_pretrained():
    """Returns the SHA-256 of the pretrained weights."""
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


def teacher(folder, tables, count, kind, seed):
    return trained(config_of(tables, count, seed), folder, FLAGS.teacher)


def classifier(folder, tables, count, kind, seed):
    config = config_of(tables, count, seed)
    config.data.update(length=64, by_length=False)
    if pretrained_is_bert():
        config.data.update(pack=8, vocab=f"{FLAGS.pretrained}/vocab.txt")
        config.model.update(
            architecture_of(FLAGS.pretrained, config.model) if kind == "random weights" else {}
        )
    config.model.update(pooling=FLAGS.pooling, new_heads=True)  # some BERTs lack a pooler
    config.train.update(
        epochs=max(FLAGS.seen / count, 2.0),
        learning_rate=FLAGS.learning_rate,
        jit=FLAGS.precision == "float32",
    )
    if kind == "distilled":
        parent = os.path.dirname(os.path.dirname(folder))
        config.train.teacher = os.path.join(parent, "teacher", f"seed-{seed}")
        if not os.path.exists(config.train.teacher):
            teacher(config.train.teacher, tables, count, "teacher", seed)
    return trained(config, folder, None if kind == "random weights" else FLAGS.pretrained)


def config_of(tables, count, seed):
    """Returns the settings that all runs on the examples share."""
    from keras_attn.defaults import finetuning_defaults

    train, test = write_tables(tables, os.path.join(FLAGS.output, "rows", sha256_of(tables)[:16]))
    config = finetuning_defaults()
    config.data.update(train=train, validation=test, text="text", label="label", limit=count)
    config.data.seed = config.train.seed = seed
    config.train.update(batch_size=32, precision=FLAGS.precision)
    config.eval.report = False
    return config


def trained(config, folder, pretrained):
    """Returns the accuracy of a run."""
    from keras_attn import finetune

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        return finetune(config, folder, pretrained)["accuracy"]


def write_tables(tables, folder):
    """Writes both tables to files, unless they exist, and returns the paths."""
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
    """Returns the fields, among the known ones, that reproduce the architecture."""
    with open(os.path.join(folder, "config.json")) as file:
        fields = json.load(file)["config"]["model"]
    return {
        name: value
        for name, value in fields.items()
        if name in known and name != "dropout" and value is not None
    }


if __name__ == "__main__":
    run_command(main, __doc__)
