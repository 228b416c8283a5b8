r"""Authorship of 40 sentences of a novel: hierarchical attention, and a flat BiLSTM.

    python -m benchmarks.mechanisms.documents --output=runs/documents \
        --novels='novels/train/*.txt.gz'

Files are named AUTHOR_TITLE_YEAR. Of each author with several books, the last one by name is the
test set, so that no book is in both splits, though a sequel may be. Words that only occur
capitalized are removed, since names would give the author away. Documents have 40 sentences of up
to 30 words; the flat BiLSTM reads the same words as one sequence. The hierarchical model has GRUs,
as in its paper, the flat one an LSTM. The learning rate and batches, of similar length, are the
same for all models and not tuned.
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
flags.DEFINE_string("novels", None, "Glob of gzipped files.", required=True)
flags.DEFINE_integer("steps", 600, "Training steps, of 32 examples.")


def main():
    books = books_by_author(sorted(glob.glob(FLAGS.novels)))
    texts = [[documents(path) for path in paths] for paths in books]
    train = [document for own in texts for book in own[:-1] for document in book]
    vocabulary = Vocabulary([words for document in train for words in document], 10_000)
    splits = [
        rows_of([[d for book in own[split] for d in book] for own in texts], vocabulary)
        for split in (slice(-1), slice(-1, None))
    ]
    most = max((splits[1]["label"] == i).mean() for i in range(len(books)))
    print(
        f"{len(books)} authors; {len(splits[0]['label']):,} training and "
        f"{len(splits[1]['label']):,} test documents; most frequent author: {100 * most:.1f} %\n"
    )
    head("accuracy")
    for kind, rows in (("flat", list(map(flat, splits))), ("hierarchical", splits)):
        for reduce in ("mean", "attention"):
            results(
                f"{kind}, {reduce}",
                {},
                partial(accuracy, by_length=True),
                partial(model_of, kind, reduce, len(vocabulary), len(books)),
                {
                    "rows": rows[0],
                    "steps": FLAGS.steps,
                    "batch_size": 32,
                    "rate": 2e-3,
                    "by_length": 50,
                },
                rows[1],
            )


def books_by_author(paths):
    """Returns a list of files for each author with at least two."""
    grouped = [
        list(own)
        for _, own in groupby(paths, lambda path: os.path.basename(path).partition("_")[0])
    ]
    several = [own for own in grouped if len(own) > 1]
    if len(several) < 2:
        raise UserError(
            "--novels must match at least two authors with at least two books each. "
            f"Received: --novels={FLAGS.novels}, {len(paths)} files"
        )
    return several


def documents(path):
    """Returns the documents of a book: lists of `SENTENCES` lists of words."""
    import gzip

    from keras_attn.text.sentences import split_sentences

    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        text = file.read()
    lowercase = set(words_of(text, lowercase=False))
    sentences = [
        [word for word in words_of(sentence) if word in lowercase][:WORDS]
        for line in text.splitlines()
        for sentence in split_sentences(line)
    ]
    sentences = [sentence for sentence in sentences if sentence]
    return [
        sentences[i : i + SENTENCES] for i in range(0, len(sentences) - SENTENCES + 1, SENTENCES)
    ]


def rows_of(by_author, vocabulary):
    """Returns the documents of all authors as arrays."""
    import numpy as np

    ids = [
        np.stack([padded(list(map(vocabulary.ids, document)), WORDS) for document in own])
        for own in by_author
    ]
    return {
        "token_ids": np.concatenate(ids),
        "label": np.repeat(np.arange(len(ids), dtype="int32"), list(map(len, ids))),
    }


def flat(rows):
    """Returns the same words as one sequence, without the padding of sentences."""
    lines = [line[line > 0] for line in rows["token_ids"].reshape(len(rows["label"]), -1)]
    return {**rows, "token_ids": padded(lines, max(map(len, lines)))}


def model_of(kind, reduce, words, authors, seed):
    from keras_attn.models import AttentiveLSTMClassifier, HierarchicalAttentionNetwork

    if kind == "flat":  # as many units as give about as many weights
        return AttentiveLSTMClassifier(
            words, authors, embedding_dim=100, units=66, reduce=reduce, seed=seed
        )
    model = HierarchicalAttentionNetwork(words, authors, embedding_dim=100, seed=seed)
    if reduce == "mean":
        freeze_uniform_attention(model)
    return model


def freeze_uniform_attention(model):
    """Freezes the attention to words and sentences at uniform weights."""
    import numpy as np

    model({"token_ids": np.ones((1, SENTENCES, WORDS), "int32")})
    for pooling in (model.attention.word_attention, model.attention.sentence_attention):
        pooling.trainable = False
        pooling.set_weights([0 * weight for weight in pooling.get_weights()])


if __name__ == "__main__":
    run_command(main, __doc__)
