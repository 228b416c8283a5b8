"""Shared code of the mechanism benchmarks: vocabulary, training with `fit`, cached results."""

import hashlib
import os
import re
import statistics
import time
from collections import Counter
from functools import partial

from absl import flags

from benchmarks.cached import cached, format_scores

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "output", None, "Folder of the results; existing results are reused.", required=True
)
flags.DEFINE_integer("seeds", 3, "Runs per row of the table.", lower_bound=2)
flags.DEFINE_multi_string("kinds", [], "Rows to compute, by name; empty: all.")

PADDING, UNKNOWN, BEGIN, END = range(4)
VOCABULARY_AXIS = 1500  # a weight with an axis of at least this size depends on the vocabulary
PART = 100  # examples decoded at once


def results(name, settings, run, make, train, *others):
    """Trains a model per seed and prints a table row of their scores, if it is in --kinds.

    Args:
        name: Name of the row and of the files with its results.
        settings: JSON-serializable settings. They include the source of the test set, unless it is
            in `others` as a dictionary of arrays. Cached results of other settings are errors.
        run: Function that takes a trained model and `others` and returns a list of scores.
        make: Function that takes a seed and returns a model.
        train: Arguments of `fit`, with `rows`.
        *others: Further arguments of `run`.
    """
    if FLAGS.kinds and name not in FLAGS.kinds:
        return
    settings = {
        **settings,
        **{key: value for key, value in train.items() if key != "rows"},
        "rows": sha256_of(train["rows"]),
        "tests": [sha256_of(other) for other in others if isinstance(other, dict)],
    }

    def one(seed):
        begin, model = time.monotonic(), make(seed)
        fit(model, seed=seed, **train)
        seconds = time.monotonic() - begin
        return {
            "scores": run(model, *others),
            "seconds": seconds,
            "weights": weights_without_vocabulary(model),
        }

    file = os.path.join(FLAGS.output, re.sub("[^A-Za-z0-9]+", "-", name))
    found = [
        cached(f"{file}-{seed}.json", settings, partial(one, seed)) for seed in range(FLAGS.seeds)
    ]
    cells = [format_scores(scores) for scores in zip(*(x["scores"] for x in found), strict=True)]
    seconds = statistics.median(x["seconds"] for x in found)
    budget = f"{train['steps']:,} × {train['batch_size']}, {train['rate']:g}"
    print(
        f"| {name} | {' | '.join(cells)} | {found[0]['weights']:,} | {budget} | {seconds:.0f} |",
        flush=True,
    )


def head(*names):
    """Prints the header of a table of `results`."""
    names = "", *names, "weights", "steps × batch size, learning rate", "training seconds"
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)


def sha256_of(rows):
    """Returns the SHA-256 of a dictionary of arrays."""
    digest = hashlib.sha256()
    for name in sorted(rows):
        digest.update(name.encode() + rows[name].tobytes())
    return digest.hexdigest()


def weights_without_vocabulary(model):
    """Counts the weights other than embeddings and the output layer over the vocabulary."""
    return sum(
        int(weight.value.shape.num_elements())
        for weight in model.trainable_variables
        if max(weight.shape) < VOCABULARY_AXIS
    )


def fit(model, rows, *, steps, batch_size, rate, seed, by_length=None):
    """Trains with Adam and a cosine decay of the learning rate to 0 on a dictionary of arrays.

    With `by_length`, the examples of a batch have similar lengths: those of so many batches are
    sorted together; see `batches_by_length`.
    """
    import keras
    import numpy as np

    keras.utils.set_random_seed(seed)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(optimizer=keras.optimizers.Adam(schedule, global_clipnorm=1.0))
    rng, size = np.random.default_rng(seed), len(next(iter(rows.values())))
    order = np.concatenate([rng.permutation(size) for _ in range(-(-steps * batch_size // size))])
    order = order[: steps * batch_size]
    if by_length:
        model.fit(
            batches_by_length(rows, order, batch_size, by_length, rng), shuffle=False, verbose=0
        )
    else:
        model.fit(
            x={name: x[order] for name, x in rows.items()},
            batch_size=batch_size,
            shuffle=False,
            verbose=0,
        )


def batches_by_length(rows, order, batch_size, count, rng):
    """Returns a dataset of batches of similar length, truncated to their longest example.

    Args:
        rows: Dictionary of arrays `(N, ..., T)` or `(N,)`, padded with 0; arrays whose positions
            correspond have the same lengths.
        order: Indices of the examples, approximately in this order.
        batch_size: Examples per batch.
        count: Number of batches whose examples are sorted by length together.
        rng: `np.random.Generator` that shuffles these batches.
    """
    import numpy as np
    import tensorflow as tf

    lengths = sum(
        np.count_nonzero(x, axis=tuple(range(1, x.ndim))) for x in rows.values() if x.ndim > 1
    )
    batches = []
    for begin in range(0, len(order), count * batch_size):
        pool = order[begin : begin + count * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        parts = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        batches += [parts[i] for i in rng.permutation(len(parts))]

    def truncate(x):
        if x.ndim == 1:
            return x
        return x[..., : np.max(np.nonzero(x)[-1], initial=0) + 1]

    def generate():
        for batch in batches:
            yield {name: truncate(x[batch]) for name, x in rows.items()}

    return tf.data.Dataset.from_generator(
        generate,
        output_signature={
            name: tf.TensorSpec((None,) * x.ndim, x.dtype) for name, x in rows.items()
        },
    ).apply(tf.data.experimental.assert_cardinality(len(batches)))


def accuracy(model, rows, name="accuracy", by_length=False):
    """Returns `[score]` in percent, computed on batches of similar length if `by_length`."""
    import numpy as np

    arguments = {"x": rows, "batch_size": 256}
    if by_length:
        size = len(next(iter(rows.values())))
        arguments = {
            "x": batches_by_length(rows, np.arange(size), 256, size, np.random.default_rng(0))
        }
    found = model.evaluate(**arguments, verbose=0, return_dict=True)
    return [100 * found[name]]


def decoded(search, rows, vocabulary, names=None):
    """Decodes examples and returns lists of words.

    Args:
        search: Function that takes a part of the examples and returns the result of
            `keras_attn.generation`.
        rows: Dictionary of arrays.
        vocabulary: `Vocabulary` of the words.
        names: List of out-of-vocabulary words for each example, or None.
    """
    import numpy as np
    import tensorflow as tf

    search, texts = tf.function(search, reduce_retracing=True), []
    known = ["", "<unk>", "", "", *vocabulary.words]
    for i in range(0, len(rows["token_ids"]), PART):
        found = search({name: tf.constant(x[i : i + PART]) for name, x in rows.items()})
        lines, lengths = (np.asarray(found[name]) for name in ("token_ids", "lengths"))
        for row, (line, length) in enumerate(zip(lines, lengths, strict=True), start=i):
            words = dict(enumerate(known + (names[row] if names else [])))
            texts.append([words.get(number, "<unk>") for number in line[:length] if number != END])
    return texts


def words_of(text, lowercase=True):
    """Splits a text into words and punctuation marks."""
    return re.findall(r"\w+|[^\w\s]", text.lower() if lowercase else text)


class Vocabulary:
    """Ids of words that occur at least twice; the first four ids are special tokens.

    Args:
        texts: Lists of words.
        most: Maximum number of words; the most frequent are kept.
    """

    def __init__(self, texts, most=20_000):
        counts = Counter(word for text in texts for word in text)
        self.words = [word for word, count in counts.most_common(most) if count > 1]
        self._ids = {word: number for number, word in enumerate(self.words, start=END + 1)}

    def __len__(self):
        return len(self.words) + END + 1

    def ids(self, words):
        return [self._ids.get(word, UNKNOWN) for word in words]


def padded(rows, length):
    """Returns lists of integers as int32 `(N, length)`, truncated or padded with 0."""
    import numpy as np

    array = np.zeros((len(rows), length), "int32")
    for line, row in zip(array, rows, strict=True):
        line[: len(row)] = row[:length]
    return array
