"""Predicts a docstring's first sentence from the others, with and without copying and coverage.

    python -m benchmarks.mechanisms.summaries --output=runs/summaries

The target is the first sentence that is English and not a frequent duplicate; the source is the
text after it. The docstrings are those of Python and its installed packages, so results differ
between installations; a twentieth of the modules is the test set. Words that can neither be
generated nor copied count as errors. F1 is computed over the words of the summary with their
multiplicity, without punctuation (ROUGE-1 without stemming), and decoding is greedy. Batches have
similar lengths. The learning rate is the same for all models and not tuned.
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
flags.DEFINE_integer("steps", 2000, "Training steps, of 32 examples.")
flags.DEFINE_integer("words", 4000, "Vocabulary size.")


def main():
    splits = pairs()
    vocabulary = Vocabulary([words for pair in splits[0] for words in pair], FLAGS.words)
    rows = [Rows(split, vocabulary) for split in splits]
    # The maximum of both, so that one model reads either.
    num_oov = max(split.num_oov for split in rows)
    print(
        f"{len(splits[0]):,} training and {len(splits[1]):,} test docstrings; "
        f"{rows[1].outside:.1%} of the target words are outside the vocabulary, and "
        f"{rows[1].impossible:.1%} are not in the source either\n"
    )
    head("accuracy of words with teacher forcing", "F1 of words")
    for copying in (False, True):
        train, test = (split.arrays if copying else split.without_copies() for split in rows)
        for coverage in (False, True):
            name = f"{'' if copying else 'no '}copying{', coverage' * coverage}"
            results(
                name,
                {"words": FLAGS.words},
                scores,
                partial(model_of, copying, coverage, len(vocabulary), num_oov, train),
                {
                    "rows": train,
                    "steps": FLAGS.steps,
                    "batch_size": 32,
                    "rate": 2e-3,
                    "by_length": 50,
                },
                rows[1],
                test,
                vocabulary,
            )


def pairs():
    """Returns (training, test): lists of (source, target) pairs of lists of words."""
    from keras_attn.data.sources.docstrings import read_modules

    splits = [], []
    for module in read_modules():
        split = splits[zlib.crc32(module.name.encode()) % 20 == 0]
        for first, *others in module.docstrings:
            source, target = words_of(" ".join(others)), words_of(first)
            if len(source) >= 10 and 3 <= len(target) < TARGET:
                split.append((source[:SOURCE], target))
    return splits


class Rows:
    """Examples of a `PointerGenerator`; out-of-vocabulary words have ids within their example.

    Attributes:
        num_oov: Maximum number of out-of-vocabulary words in an example.
        arrays: Inputs and labels as a dictionary of arrays.
        targets: Lists of target words.
        names: Out-of-vocabulary words of each example, in order.
        outside: Fraction of target words outside the vocabulary.
        impossible: Fraction of target words that can neither be generated nor copied.
    """

    def __init__(self, split, vocabulary):
        import numpy as np

        self.targets, self.names, sources, labels = [], [], [], []
        for source, target in split:
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
            "token_ids": padded(sources, SOURCE),
            "label": label,
            "target_ids": padded([[BEGIN, *ids] for ids in labels], TARGET),
            "sample_weight": (label > 0).astype(np.float32),
        }
        count = sum(map(len, labels))
        self.impossible = float(np.sum(label == UNKNOWN)) / count
        self.outside = self.impossible + float(np.sum(label >= self._known)) / count

    def without_copies(self):
        """Returns the arrays with out-of-vocabulary target words as unknown tokens."""
        import numpy as np

        label = self.arrays["label"]
        return {**self.arrays, "label": np.where(label < self._known, label, UNKNOWN)}


def model_of(copying, coverage, words, num_oov, train, seed):
    from keras_attn.models import PointerGenerator

    model = PointerGenerator(
        words, num_oov, embedding_dim=64, units=96, coverage=coverage, seed=seed
    )
    if not copying:  # p_gen = 1: always generate
        model({name: array[:1] for name, array in train.items()})
        model.generation.trainable = False
        kernel, bias = model.generation.get_weights()
        model.generation.set_weights([0 * kernel, bias + 100.0])
    return model


def scores(model, rows, arrays, vocabulary):
    """Returns the accuracy and the F1 of words, in percent."""
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
    values = [f1(words, target) for words, target in zip(found, rows.targets, strict=True)]
    # Predicting the unknown token counts as an error.
    weights, known = arrays["sample_weight"], arrays["label"] != UNKNOWN
    (correct,) = accuracy(model, {**arrays, "sample_weight": weights * known}, "token_accuracy")
    return [
        correct * float(np.sum(weights * known) / weights.sum()),
        100 * sum(values) / len(values),
    ]


def f1(predicted, expected):
    """Returns the F1 of two lists of words with their multiplicity."""
    predicted, expected = (
        Counter(word for word in words if re.match(r"\w|<unk>", word))
        for words in (predicted, expected)
    )
    count = predicted.total() + expected.total()
    return 2 * (predicted & expected).total() / count if count else 1.0


if __name__ == "__main__":
    run_command(main, __doc__)
