"""Accuracy of one BiLSTM by how its states become one vector.

    python -m benchmarks.mechanisms.poolings --output=runs/poolings \
        --sets='TREC=TREC.train.all,TREC.test.all;SUBJ=subj.all;SST-2=SST-2/train.tsv,SST-2/dev.tsv'

A set of one file has a tenth held out as its test, the same for all. Words are those of the
training rows, with vectors that begin at random; as many batches for every kind.
"""

from absl import flags

from benchmarks.labelled_sets import read
from benchmarks.mechanisms.runs import Vocabulary, accuracy, fit, padded, results, told, words_of
from keras_attn.jobs.command_line import run_command

POOLINGS = ["last", "mean", "max", "attention", "self_attention"]
LENGTH = 48

FLAGS = flags.FLAGS
flags.DEFINE_string("sets", None, "NAME=FILE,TEST;NAME=FILE;…; .tsv with a header, else a label "
                    "and a text a line.", required=True)
flags.DEFINE_integer("steps", 1500, "Batches of 32.")


def main():
    print(f"| | {' | '.join(POOLINGS)} |\n|---|{'---|' * len(POOLINGS)}")
    for given in FLAGS.sets.split(";"):
        name, _, files = given.partition("=")
        tables = read(files.split(","))
        texts = [[words_of(text) for text in table.texts] for table in tables]
        vocabulary, classes = Vocabulary(texts[0]), sorted(set(tables[0].labels))
        rows = [rows_of(words, table.labels, vocabulary, classes)
                for words, table in zip(texts, tables, strict=True)]
        cells = [told(results(
            f"{name}-{pooling}", {"steps": FLAGS.steps},
            lambda seed: run(seed, pooling, len(vocabulary), len(classes), rows)))  # noqa: B023
            for pooling in POOLINGS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def rows_of(words, labels, vocabulary, classes):
    import numpy as np

    return {"token_ids": padded(list(map(vocabulary.ids, words)), LENGTH),
            "label": np.array([classes.index(label) for label in labels], "int32")}


def run(seed, pooling, words, classes, rows):
    from keras_attn.models import AttentiveLSTMClassifier

    model = AttentiveLSTMClassifier(words, classes, embedding_dim=100, units=64, reduce=pooling,
                                    dropout=0.5, seed=seed)
    fit(model, rows[0], steps=FLAGS.steps, batch_size=32, rate=2e-3, seed=seed)
    return accuracy(model, rows[1])


if __name__ == "__main__":
    run_command(main, __doc__)
