"""The first sentence of a docstring from the others, with and without copying and coverage.

    python -m benchmarks.mechanisms.summaries --output=runs/summaries

Docstrings are those of the Python that runs and its packages, so numbers differ between
installations; a twentieth of the modules is the test. F1 is that of the words of the summary, each
as often as it is there (ROUGE-1 without stemming), the likeliest words one by one.
"""

import zlib
from collections import Counter

from absl import flags

from benchmarks.mechanisms.runs import (
    BEGIN,
    END,
    UNKNOWN,
    Vocabulary,
    accuracy,
    fit,
    padded,
    results,
    told,
    words_of,
)
from keras_attn.jobs.command_line import run_command

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
    outside = sum(word not in vocabulary.words for _, target in sides[1] for word in target)
    count = sum(len(target) for _, target in sides[1])
    print(f"{len(sides[0]):,} docstrings to train on, {len(sides[1]):,} to test; "
          f"{outside / count:.1%} of the words to tell are outside the vocabulary\n"
          "| | words that are right, given those before | F1 of words |\n|---|---|---|")
    for copying in (False, True):
        for coverage in (False, True):
            name = f"{'' if copying else 'no '}copying{', coverage' * coverage}"
            found = results(name.replace(", ", "-").replace(" ", "-"),
                            {"steps": FLAGS.steps, "words": FLAGS.words}, lambda seed: run(
                                seed, copying, coverage, vocabulary, num_oov, rows))  # noqa: B023
            cells = [told(scores) for scores in zip(*found, strict=True)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def pairs():
    """Of training and test: pairs of lists of words, the others' and the first sentence's."""
    from keras_attn.data.docstrings import read_modules

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
        label = padded([[*ids, END] for ids in labels], TARGET)
        self.arrays = {
            "token_ids": padded(sources, SOURCE), "label": label,
            "target_ids": padded([[BEGIN, *ids] for ids in labels], TARGET),
            "sample_weight": (label > 0).astype(np.float32)}


def run(seed, copying, coverage, vocabulary, num_oov, rows):
    """[share of words, F1]."""
    from keras_attn.models import PointerGenerator

    train, test = rows
    model = PointerGenerator(len(vocabulary), num_oov, embedding_dim=64, units=96,
                             coverage=coverage, seed=seed)
    if not copying:
        generate_always(model, {name: array[:1] for name, array in train.arrays.items()})
    fit(model, train.arrays, steps=FLAGS.steps, batch_size=32, rate=2e-3, seed=seed)
    found = summaries(model, test, vocabulary)
    shares = [f1(words, target) for words, target in zip(found, test.targets, strict=True)]
    return [accuracy(model, test.arrays, "token_accuracy"), sum(shares) / len(shares)]


def generate_always(model, row):
    """Sets the share of the vocabulary to 1 for good."""
    model(row)
    model.generation.trainable = False
    kernel, bias = model.generation.get_weights()
    model.generation.set_weights([0 * kernel, bias + 100.0])


def summaries(model, rows, vocabulary):
    """Lists of words, the likeliest one by one."""
    import numpy as np
    import tensorflow as tf

    from keras_attn.generation import sample

    @tf.function(reduce_retracing=True)
    def search(token_ids):
        cache, memory = model.start_decoding({"token_ids": token_ids})
        found = sample(lambda ids, _, cache: model.decode(ids, cache, memory)[:2], cache,
                       tf.fill(tf.shape(token_ids)[:1], BEGIN), TARGET, END, temperature=0)
        return found["token_ids"], found["lengths"]

    known, texts = ["", "<unk>", "", "", *vocabulary.words], []
    for i in range(0, len(rows.targets), 200):
        ids, lengths = map(np.asarray, search(tf.constant(rows.arrays["token_ids"][i:i + 200])))
        for line, length, names in zip(ids, lengths, rows.names[i:i + 200], strict=True):
            # A number that the row has no word for stays unknown.
            words = known + names + ["<unk>"] * (model.num_oov - len(names))
            texts.append([words[number] for number in line[:length] if number != END])
    return texts


def f1(found, wanted):
    """Of words, each as often as it is there."""
    both = sum((Counter(found) & Counter(wanted)).values())
    return 2 * both / (len(found) + len(wanted))


if __name__ == "__main__":
    run_command(main, __doc__)
