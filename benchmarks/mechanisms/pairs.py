r"""ABCNN beside BCNN, which is the like without attention, on RTE: does one text follow?

    python -m benchmarks.mechanisms.pairs --output=runs/pairs \
        --train=RTE/train.tsv --test=RTE/dev.tsv

Words are those of the training rows, with vectors that begin at random.
"""

from absl import flags

from benchmarks.mechanisms.runs import Vocabulary, accuracy, fit, padded, results, told, words_of
from keras_attn.jobs.command_line import run_command

VARIANTS = ["BCNN", "ABCNN-1", "ABCNN-2", "ABCNN-3"]
LENGTH = 64

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "GLUE's file.", required=True)
flags.DEFINE_string("test", None, "Another.", required=True)
flags.DEFINE_integer("steps", 600, "Batches of 32.")
flags.DEFINE_integer("blocks", 1, "Of convolution and pooling.")


def main():
    from keras_attn.data.tables import read_table

    tables = [read_table(path, text="sentence1", text_pair="sentence2", label="label")
              for path in (FLAGS.train, FLAGS.test)]
    vocabulary = Vocabulary([words_of(text) for text in tables[0].texts + tables[0].text_pairs])
    rows = [rows_of(table, vocabulary) for table in tables]
    likely = max(rows[1]["label"].mean(), 1 - rows[1]["label"].mean())
    print(f"{len(tables[0]):,} rows to train on, {len(tables[1]):,} to test, "
          f"{100 * likely:.1f} of one class")
    for variant, name in enumerate(VARIANTS):
        found = results(f"{name}-{FLAGS.blocks}", {"steps": FLAGS.steps}, lambda seed: run(
            seed, variant, len(vocabulary), rows))  # noqa: B023
        print(f"| {name} | {told(found)} |", flush=True)


def rows_of(table, vocabulary):
    import numpy as np

    first, second = (padded([vocabulary.ids(words_of(text)) for text in texts], LENGTH)
                     for texts in (table.texts, table.text_pairs))
    return {"token_ids": first, "second_token_ids": second,
            "label": np.array([label == "entailment" for label in table.labels], "int32")}


def run(seed, variant, words, rows):
    from keras_attn.models import ABCNN

    model = ABCNN(words, 2, LENGTH, variant, embedding_dim=100, filters=50, width=4,
                  num_blocks=FLAGS.blocks, seed=seed)
    fit(model, rows[0], steps=FLAGS.steps, batch_size=32, rate=1e-3, seed=seed)
    return accuracy(model, rows[1])


if __name__ == "__main__":
    run_command(main, __doc__)
