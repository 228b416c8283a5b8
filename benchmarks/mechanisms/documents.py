r"""Who wrote forty sentences of a novel? Words and sentences with attention, and one long line.

    python -m benchmarks.mechanisms.documents --output=runs/documents \
        --novels='novels/train/*.txt.gz'

Files are named AUTHOR_TITLE_YEAR; of each author with several books the last by name is the test,
so that no book is on both sides. Documents are 40 sentences of up to 30 words; the flat BiLSTM
reads the same words as one line.
"""

import glob
import os
from itertools import groupby

from absl import flags

from benchmarks.mechanisms.runs import Vocabulary, accuracy, fit, padded, results, told, words_of
from keras_attn.errors import UserError
from keras_attn.jobs.command_line import run_command

SENTENCES, WORDS = 40, 30

FLAGS = flags.FLAGS
flags.DEFINE_string("novels", None, "Pattern of gzipped files.", required=True)
flags.DEFINE_integer("steps", 600, "Batches of 32.")


def main():
    books = books_by_author(sorted(glob.glob(FLAGS.novels)))
    texts = [[documents(path) for path in paths] for paths in books]
    train = [document for own in texts for book in own[:-1] for document in book]
    vocabulary = Vocabulary([words for document in train for words in document], 10_000)
    sides = [rows_of([[d for book in own[side] for d in book] for own in texts], vocabulary)
             for side in (slice(-1), slice(-1, None))]
    print(f"{len(books)} authors; {len(sides[0]['label']):,} documents to train on, "
          f"{len(sides[1]['label']):,} to test")
    for name in ("flat, mean", "flat, attention", "hierarchical, mean", "hierarchical, attention"):
        found = results(name.replace(", ", "-"), {"steps": FLAGS.steps}, lambda seed: run(
            seed, name, len(vocabulary), len(books), sides))  # noqa: B023
        print(f"| {name} | {told(found)} |", flush=True)


def books_by_author(paths):
    """Lists of files, of authors with two at least."""
    grouped = [list(own) for _, own in groupby(
        paths, lambda path: os.path.basename(path).partition("_")[0])]
    several = [own for own in grouped if len(own) > 1]
    if len(several) < 2:
        raise UserError("--novels must find two authors with two books at least. Received: "
                        f"{FLAGS.novels}, {len(paths)} files")
    return several


def documents(path):
    """Of a book: lists of `SENTENCES` lists of words."""
    import gzip

    from keras_attn.text.sentences import split_sentences

    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        sentences = [words_of(sentence)[:WORDS] for line in file
                     for sentence in split_sentences(line)]
    return [sentences[i:i + SENTENCES] for i in range(0, len(sentences) - SENTENCES, SENTENCES)]


def rows_of(by_author, vocabulary):
    """Rows of the documents of each author."""
    import numpy as np

    ids = [np.stack([padded(list(map(vocabulary.ids, document)), WORDS) for document in own])
           for own in by_author]
    return {"token_ids": np.concatenate(ids),
            "label": np.repeat(np.arange(len(ids), dtype="int32"), list(map(len, ids)))}


def flat(rows):
    """The same words as one line, without what fills up sentences."""
    return {**rows, "token_ids": padded([line[line > 0] for line in rows["token_ids"].reshape(
        len(rows["label"]), -1)], SENTENCES * WORDS // 2)}


def run(seed, name, words, authors, sides):
    from keras_attn.models import AttentiveLSTMClassifier, HierarchicalAttentionNetwork

    kind, reduce = name.split(", ")
    if kind == "flat":
        sides = list(map(flat, sides))
        model = AttentiveLSTMClassifier(words, authors, embedding_dim=100, units=50, reduce=reduce,
                                        dropout=0.3, seed=seed)
    else:
        model = HierarchicalAttentionNetwork(words, authors, embedding_dim=100, dropout=0.3,
                                             seed=seed)
        if reduce == "mean":
            attend_alike(model)
    fit(model, sides[0], steps=FLAGS.steps, batch_size=32, rate=2e-3, seed=seed)
    return accuracy(model, sides[1])


def attend_alike(model):
    """Lets words and sentences count alike for good."""
    import numpy as np

    model({"token_ids": np.ones((1, SENTENCES, WORDS), "int32")})
    for pooling in (model.attention.word_attention, model.attention.sentence_attention):
        pooling.trainable = False
        pooling.set_weights([0 * weight for weight in pooling.get_weights()])


if __name__ == "__main__":
    run_command(main, __doc__)
