r"""Who wrote forty sentences of a novel? Words and sentences with attention, and one long line.

    python -m benchmarks.mechanisms.documents --output=runs/documents \
        --novels='novels/train/*.txt.gz'

Files are named AUTHOR_TITLE_YEAR; of each author with several books the last by name is the test,
so that no book is on both sides, though sequels may be. Words that are written with a capital only
are left out, since names would tell. Documents are 40 sentences of up to 30 words; the flat BiLSTM
reads the same words as one line. The hierarchical model has GRUs, as its paper, the flat one an
LSTM. Rate and batches, of similar length, are the same for all, and were not tuned.
"""

import glob
import os
from functools import partial
from itertools import groupby

from absl import flags

from benchmarks.mechanisms.runs import Vocabulary, accuracy, head, padded, results, words_of
from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError

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
    most = max((sides[1]["label"] == i).mean() for i in range(len(books)))
    print(f"{len(books)} authors; {len(sides[0]['label']):,} documents to train on, "
          f"{len(sides[1]['label']):,} to test, {100 * most:.1f} % of one author\n")
    head("accuracy")
    for kind, rows in (("flat", list(map(flat, sides))), ("hierarchical", sides)):
        for reduce in ("mean", "attention"):
            results(f"{kind}, {reduce}", {}, partial(accuracy, by_length=True), partial(
                model_of, kind, reduce, len(vocabulary), len(books)), {
                    "rows": rows[0], "steps": FLAGS.steps, "batch_size": 32, "rate": 2e-3,
                    "by_length": 50}, rows[1])


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
        text = file.read()
    small = set(words_of(text, lowercase=False))
    sentences = [[word for word in words_of(sentence) if word in small][:WORDS]
                 for line in text.splitlines() for sentence in split_sentences(line)]
    sentences = [sentence for sentence in sentences if sentence]
    return [sentences[i:i + SENTENCES]
            for i in range(0, len(sentences) - SENTENCES + 1, SENTENCES)]


def rows_of(by_author, vocabulary):
    """Rows of the documents of each author."""
    import numpy as np

    ids = [np.stack([padded(list(map(vocabulary.ids, document)), WORDS) for document in own])
           for own in by_author]
    return {"token_ids": np.concatenate(ids),
            "label": np.repeat(np.arange(len(ids), dtype="int32"), list(map(len, ids)))}


def flat(rows):
    """The same words as one line, without what fills up sentences."""
    lines = [line[line > 0] for line in rows["token_ids"].reshape(len(rows["label"]), -1)]
    return {**rows, "token_ids": padded(lines, max(map(len, lines)))}


def model_of(kind, reduce, words, authors, seed):
    from keras_attn.models import AttentiveLSTMClassifier, HierarchicalAttentionNetwork

    if kind == "flat":  # units for about as many weights
        return AttentiveLSTMClassifier(words, authors, embedding_dim=100, units=66, reduce=reduce,
                                       seed=seed)
    model = HierarchicalAttentionNetwork(words, authors, embedding_dim=100, seed=seed)
    if reduce == "mean":
        attend_alike(model)
    return model


def attend_alike(model):
    """Lets words and sentences count alike for good."""
    import numpy as np

    model({"token_ids": np.ones((1, SENTENCES, WORDS), "int32")})
    for pooling in (model.attention.word_attention, model.attention.sentence_attention):
        pooling.trainable = False
        pooling.set_weights([0 * weight for weight in pooling.get_weights()])


if __name__ == "__main__":
    run_command(main, __doc__)
