"""The first sentence of a docstring from the others, with and without copying and coverage.

    python -m benchmarks.mechanisms.summaries --output=runs/summaries

The first sentence is the first that is English and not one of many alike; the source are those
after it. Docstrings are those of the Python that runs and its packages, so numbers differ between
installations; a twentieth of the modules is the test. Words that can neither be generated nor
copied count as wrong. F1 is that of the words of the summary, without marks, each as often as it is
there (ROUGE-1 without stemming), the likeliest words one by one. Batches are of similar length. The
rate is the same for all, and was not tuned.
"""

import re
import zlib
from collections import Counter
from functools import partial

from absl import flags

from benchmarks.mechanisms.runs import (
    BEGIN,
    END,
    UNKNOWN,
    Vocabulary,
    accuracy,
    decoded,
    head,
    padded,
    results,
    words_of,
)
from keras_attn.cli.command_line import run_command

SOURCE, TARGET = 100, 20  # words

FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 2000, "Batches of 32.")
flags.DEFINE_integer("words", 4000, "Of the vocabulary.")


def main():
    sides = pairs()
    vocabulary = Vocabulary([words for pair in sides[0] for words in pair], FLAGS.words)
    rows = [Rows(side, vocabulary) for side in sides]
    # Of both, so that one model reads either.
    num_oov = max(side.num_oov for side in rows)
    print(f"{len(sides[0]):,} docstrings to train on, {len(sides[1]):,} to test; "
          f"{rows[1].outside:.1%} of the words to tell are outside the vocabulary, "
          f"{rows[1].nowhere:.1%} nowhere in the source either\n")
    head("words that are right, given those before", "F1 of words")
    for copying in (False, True):
        train, test = (side.arrays if copying else side.without_copies() for side in rows)
        for coverage in (False, True):
            name = f"{'' if copying else 'no '}copying{', coverage' * coverage}"
            results(name, {"words": FLAGS.words}, scores, partial(
                model_of, copying, coverage, len(vocabulary), num_oov, train), {
                    "rows": train, "steps": FLAGS.steps, "batch_size": 32, "rate": 2e-3,
                    "by_length": 50},
                rows[1], test, vocabulary)


def pairs():
    """Of training and test: pairs of lists of words, the others' and the first sentence's."""
    from keras_attn.data.sources.docstrings import read_modules

    sides = [], []
    for module in read_modules():
        side = sides[zlib.crc32(module.name.encode()) % 20 == 0]
        for first, *others in module.docstrings:
            source, target = words_of(" ".join(others)), words_of(first)
            if len(source) >= 10 and 3 <= len(target) < TARGET:
                side.append((source[:SOURCE], target))
    return sides


class Rows:
    """Rows of a `PointerGenerator`; words that are in no vocabulary are numbered by row.

    Attributes:
        num_oov: Of these at most in a row.
        arrays: Dictionary.
        targets: Lists of words.
        names: Of each row the words outside the vocabulary, in their order.
    """

    def __init__(self, side, vocabulary):
        import numpy as np

        self.targets, self.names, sources, labels = [], [], [], []
        for source, target in side:
            names = {}
            for ids, words in ((sources, source), (labels, target)):
                ids.append(vocabulary.ids(words))
                for i, word in enumerate(words):
                    if ids[-1][i] == UNKNOWN and (words is source or word in names):
                        ids[-1][i] = len(vocabulary) + names.setdefault(word, len(names))
            self.targets.append(target)
            self.names.append(list(names))
        self.num_oov = max(map(len, self.names))
        self._known = len(vocabulary)
        label = padded([[*ids, END] for ids in labels], TARGET)
        self.arrays = {
            "token_ids": padded(sources, SOURCE), "label": label,
            "target_ids": padded([[BEGIN, *ids] for ids in labels], TARGET),
            "sample_weight": (label > 0).astype(np.float32)}
        count = sum(map(len, labels))
        self.nowhere = float(np.sum(label == UNKNOWN)) / count
        self.outside = self.nowhere + float(np.sum(label >= self._known)) / count

    def without_copies(self):
        """The arrays for a model that knows words outside the vocabulary as unknown only."""
        import numpy as np

        label = self.arrays["label"]
        return {**self.arrays, "label": np.where(label < self._known, label, UNKNOWN)}


def model_of(copying, coverage, words, num_oov, train, seed):
    from keras_attn.models import PointerGenerator

    model = PointerGenerator(words, num_oov, embedding_dim=64, units=96, coverage=coverage,
                             seed=seed)
    if not copying:  # a share of the vocabulary of 1 for good
        model({name: array[:1] for name, array in train.items()})
        model.generation.trainable = False
        kernel, bias = model.generation.get_weights()
        model.generation.set_weights([0 * kernel, bias + 100.0])
    return model


def scores(model, rows, arrays, vocabulary):
    """Shares of words, in percent."""
    import numpy as np
    import tensorflow as tf

    from keras_attn.generation import sample

    def search(inputs):
        cache, memory = model.start_decoding(inputs, TARGET)

        def step(ids, index, cache):
            logits, cache = model.decode(ids[:, None], index, cache, memory)
            return logits[:, 0], cache

        begin = tf.fill(tf.shape(inputs["token_ids"])[:1], BEGIN)
        return sample(step, cache, begin, TARGET, END, temperature=0)

    found = decoded(search, {"token_ids": arrays["token_ids"]}, vocabulary, rows.names)
    shares = [f1(words, target) for words, target in zip(found, rows.targets, strict=True)]
    # To tell that a word is unknown is not to tell it.
    told = arrays["label"] != UNKNOWN
    (right,) = accuracy(model, {**arrays, "sample_weight": arrays["sample_weight"] * told},
                        "token_accuracy")
    return [right * float(np.sum(arrays["sample_weight"] * told) / arrays["sample_weight"].sum()),
            100 * sum(shares) / len(shares)]


def f1(found, wanted):
    """Of words, each as often as it is there."""
    found, wanted = (Counter(word for word in words if re.match(r"\w|<unk>", word))
                     for words in (found, wanted))
    count = found.total() + wanted.total()
    return 2 * (found & wanted).total() / count if count else 1.0


if __name__ == "__main__":
    run_command(main, __doc__)
