r"""ABCNN and BCNN, the same model without attention, on RTE: does one text entail the other?

    python -m benchmarks.mechanisms.pairs --output=runs/pairs \
        --train=RTE/train.tsv --test=RTE/dev.tsv

The vocabulary is that of the training set, with randomly initialized embeddings. First texts are
truncated to 128 words, second ones to 48. The learning rate and batch size are the same for all
models and not tuned. With 277 test examples, an accuracy has a 95 % interval of ± 5.9.
"""

from functools import partial

from absl import flags

from benchmarks.mechanisms.runs import Vocabulary, accuracy, head, padded, results, words_of
from keras_attn.cli.command_line import run_command

VARIANTS = ["BCNN", "ABCNN-1", "ABCNN-2", "ABCNN-3"]
LENGTHS = 128, 48

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "train.tsv of RTE.", required=True)
flags.DEFINE_string("test", None, "dev.tsv of RTE.", required=True)
flags.DEFINE_integer("steps", 600, "Training steps, of 32 examples.")
flags.DEFINE_integer("blocks", 1, "Number of blocks of convolution and pooling.")


def main():
    from keras_attn.data.sources.tables import read_table

    tables = [
        read_table(path, text="sentence1", text_pair="sentence2", label="label")
        for path in (FLAGS.train, FLAGS.test)
    ]
    vocabulary = Vocabulary([words_of(text) for text in tables[0].texts + tables[0].text_pairs])
    rows = [rows_of(table, vocabulary) for table in tables]
    most = max(rows[1]["label"].mean(), 1 - rows[1]["label"].mean())
    print(
        f"{len(tables[0]):,} training and {len(tables[1]):,} test examples; "
        f"most frequent class: {100 * most:.1f} %\n"
    )
    head("accuracy")
    for variant, name in enumerate(VARIANTS):
        results(
            name,
            {"blocks": FLAGS.blocks},
            accuracy,
            partial(model_of, variant, len(vocabulary)),
            {"rows": rows[0], "steps": FLAGS.steps, "batch_size": 32, "rate": 1e-3},
            rows[1],
        )


def rows_of(table, vocabulary):
    import numpy as np

    first, second = (
        padded([vocabulary.ids(words_of(text)) for text in texts], length)
        for texts, length in zip((table.texts, table.text_pairs), LENGTHS, strict=True)
    )
    return {
        "token_ids": first,
        "second_token_ids": second,
        "label": np.array([label == "entailment" for label in table.labels], "int32"),
    }


def model_of(variant, words, seed):
    from keras_attn.models import ABCNN

    filters = 50 if variant % 2 else 100  # two channels or one, for as many weights
    return ABCNN(
        words,
        2,
        LENGTHS[0],
        variant,
        embedding_dim=100,
        filters=filters,
        width=4,
        num_blocks=FLAGS.blocks,
        seed=seed,
    )


if __name__ == "__main__":
    run_command(main, __doc__)
