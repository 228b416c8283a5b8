r"""Accuracy of a BiLSTM by the pooling of its states.

    python -m benchmarks.mechanisms.poolings --output=runs/poolings \
        --sets='TREC=TREC.train.all,TREC.test.all;SUBJ=subj.all;SST-2=SST-2/train.tsv,SST-2/dev.tsv'

If a data set is a single file, a tenth of it is held out as the test set, the same for all models.
Texts are truncated to 48 words; the vocabulary is that of the training set, with randomly
initialized embeddings. Batches have texts of similar length. The learning rate and dropout rate are
the same for all models and not tuned.
"""

from functools import partial

from absl import flags

from benchmarks.labelled_sets import read
from benchmarks.mechanisms.runs import Vocabulary, accuracy, head, padded, results, words_of
from keras_attn.cli.command_line import run_command

POOLINGS = ["last", "mean", "max", "attention", "self_attention"]
LENGTH = 48

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "sets",
    None,
    "NAME=FILE,TEST;NAME=FILE;…: .tsv files with a header, or "
    "files with a label and a text per line.",
    required=True,
)
flags.DEFINE_float(
    "epochs",
    8.0,
    "Epochs for up to 10,000 training examples; larger sets have fewer, but at least 2.",
)


def main():
    from keras_attn.data.splits import count_shared_rows

    for given in FLAGS.sets.split(";"):
        name, _, files = given.partition("=")
        tables = read(files.split(","))
        texts = [[words_of(text) for text in table.texts] for table in tables]
        vocabulary, classes = Vocabulary(texts[0]), sorted(set(tables[0].labels))
        rows = [
            rows_of(words, table.labels, vocabulary, classes)
            for words, table in zip(texts, tables, strict=True)
        ]
        size = len(tables[0])
        epochs = max(FLAGS.epochs * min(1.0, 10_000 / size), 2.0)
        print(
            f"\n{name}: {size:,} training examples, {epochs:.1f} epochs; {len(tables[1]):,} test "
            f"examples, of which {count_shared_rows(*tables)} are also in the training set\n"
        )
        head("accuracy")
        for pooling in POOLINGS:
            results(
                f"{name}, {pooling}",
                {},
                accuracy,
                partial(model_of, pooling, len(vocabulary), len(classes)),
                {
                    "rows": rows[0],
                    "steps": round(epochs * size / 32),
                    "batch_size": 32,
                    "rate": 2e-3,
                    "by_length": 50,
                },
                rows[1],
            )


def rows_of(words, labels, vocabulary, classes):
    import numpy as np

    return {
        "token_ids": padded(list(map(vocabulary.ids, words)), LENGTH),
        "label": np.array([classes.index(label) for label in labels], "int32"),
    }


def model_of(pooling, words, classes, seed):
    from keras_attn.models import AttentiveLSTMClassifier

    return AttentiveLSTMClassifier(
        words, classes, embedding_dim=100, units=64, reduce=pooling, dropout=0.5, seed=seed
    )


if __name__ == "__main__":
    run_command(main, __doc__)
