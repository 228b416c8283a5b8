"""What the tables of mechanisms share: words as integers, training by plain `fit`, kept results."""

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
flags.DEFINE_string("output", None, "Folder of the results; what is there is not run again.",
                    required=True)
flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=2)

PADDING, UNKNOWN, BEGIN, END = range(4)
WORDS = 1500  # a side of a weight that is as long is that of a vocabulary
PART = 100  # rows decoded at once


def results(name, settings, run, make, train, *others):
    """Prints a line of what models are worth, one of each seed.

    Args:
        name: Of the row, and of the files that keep what was found.
        settings: JSON-able; a result of others, or of other rows, is refused. What tests are
            read from, unless they are in `others` as dictionaries of arrays.
        run: Function of a trained model and `others`, to a list of scores.
        make: Function of a seed, to the model.
        train: Arguments of `fit`, with `rows`.
    """
    settings = {**settings, **{key: value for key, value in train.items() if key != "rows"},
                "rows": sha256_of(train["rows"]),
                "tests": [sha256_of(other) for other in others if isinstance(other, dict)]}

    def one(seed):
        begin, model = time.monotonic(), make(seed)
        fit(model, seed=seed, **train)
        seconds = time.monotonic() - begin
        return {"scores": run(model, *others), "seconds": seconds,
                "weights": weights_but_of_words(model)}

    file = os.path.join(FLAGS.output, re.sub("[^A-Za-z0-9]+", "-", name))
    found = [cached(f"{file}-{seed}.json", settings, partial(one, seed))
             for seed in range(FLAGS.seeds)]
    cells = [format_scores(scores) for scores in zip(*(x["scores"] for x in found), strict=True)]
    seconds = statistics.median(x["seconds"] for x in found)
    budget = f"{train['steps']:,} × {train['batch_size']}, {train['rate']:g}"
    print(f"| {name} | {' | '.join(cells)} | {found[0]['weights']:,} | {budget} | {seconds:.0f} |",
          flush=True)


def head(*names):
    """Prints the head of a table of `results`."""
    names = "", *names, "weights", "steps × rows, rate", "seconds of training"
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)


def sha256_of(rows):
    """Of a dictionary of arrays."""
    digest = hashlib.sha256()
    for name in sorted(rows):
        digest.update(name.encode() + rows[name].tobytes())
    return digest.hexdigest()


def weights_but_of_words(model):
    """How many there are besides tables and the layer of a vocabulary."""
    return sum(int(weight.value.shape.num_elements()) for weight in model.trainable_variables
               if max(weight.shape) < WORDS)


def fit(model, rows, *, steps, batch_size, rate, seed, by_length=None):
    """Trains by Adam, whose rate falls to 0 by a cosine, on a dictionary of arrays.

    With `by_length` the rows of a batch are of about one length: those of so many batches are
    sorted; see `batches_by_length`.
    """
    import keras
    import numpy as np

    keras.utils.set_random_seed(seed)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(optimizer=keras.optimizers.Adam(schedule, global_clipnorm=1.0))
    rng, size = np.random.default_rng(seed), len(next(iter(rows.values())))
    order = np.concatenate([rng.permutation(size) for _ in range(-(-steps * batch_size // size))])
    order = order[:steps * batch_size]
    if by_length:
        model.fit(batches_by_length(rows, order, batch_size, by_length, rng), shuffle=False,
                  verbose=0)
    else:
        model.fit(x={name: x[order] for name, x in rows.items()}, batch_size=batch_size,
                  shuffle=False, verbose=0)


def batches_by_length(rows, order, batch_size, count, rng):
    """A dataset of rows in about that order, without the last columns where all of a batch are 0.

    Args:
        rows: Dictionary of arrays `(N, ..., T)` or `(N,)`; rows whose places belong together end at
            the same one in each.
        order: Integers: the rows.
        batch_size: Rows of a batch.
        count: Batches whose rows are sorted by length together.
        rng: `np.random.Generator` of the batches' order.
    """
    import numpy as np
    import tensorflow as tf

    lengths = sum(np.count_nonzero(x, axis=tuple(range(1, x.ndim))) for x in rows.values()
                  if x.ndim > 1)
    batches = []
    for begin in range(0, len(order), count * batch_size):
        pool = order[begin:begin + count * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        parts = [pool[i:i + batch_size] for i in range(0, len(pool), batch_size)]
        batches += [parts[i] for i in rng.permutation(len(parts))]

    def cut(x):
        if x.ndim == 1:
            return x
        return x[..., :np.max(np.nonzero(x)[-1], initial=0) + 1]

    def made():
        for batch in batches:
            yield {name: cut(x[batch]) for name, x in rows.items()}

    return tf.data.Dataset.from_generator(made, output_signature={
        name: tf.TensorSpec((None,) * x.ndim, x.dtype) for name, x in rows.items()
    }).apply(tf.data.experimental.assert_cardinality(len(batches)))


def accuracy(model, rows, name="accuracy", by_length=False):
    """A score, in percent: `[score]`; of batches of similar length, if asked for."""
    import numpy as np

    given = {"x": rows, "batch_size": 256}
    if by_length:
        size = len(next(iter(rows.values())))
        given = {"x": batches_by_length(rows, np.arange(size), 256, size,
                                        np.random.default_rng(0))}
    found = model.evaluate(**given, verbose=0, return_dict=True)
    return [100 * found[name]]


def decoded(search, rows, vocabulary, names=None):
    """Lists of words, the likeliest one by one.

    Args:
        search: Function of a part of the rows, to what `keras_attn.generation` returns.
        rows: Dictionary of arrays.
        vocabulary: `Vocabulary` of the words.
        names: Of each row a list of words besides.
    """
    import numpy as np
    import tensorflow as tf

    search, texts = tf.function(search, reduce_retracing=True), []
    known = ["", "<unk>", "", "", *vocabulary.words]
    for i in range(0, len(rows["token_ids"]), PART):
        found = search({name: tf.constant(x[i:i + PART]) for name, x in rows.items()})
        lines, lengths = (np.asarray(found[name]) for name in ("token_ids", "lengths"))
        for row, (line, length) in enumerate(zip(lines, lengths, strict=True), start=i):
            words = dict(enumerate(known + (names[row] if names else [])))
            texts.append([words.get(number, "<unk>") for number in line[:length] if number != END])
    return texts


def words_of(text, lowercase=True):
    """Words and marks."""
    return re.findall(r"\w+|[^\w\s]", text.lower() if lowercase else text)


class Vocabulary:
    """Words that texts have twice at least, as integers; the first four are marks.

    Args:
        texts: Lists of words.
        most: Words at most, the most frequent.
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
    """Lists of integers, cut or filled with 0: int32 `(N, length)`."""
    import numpy as np

    array = np.zeros((len(rows), length), "int32")
    for line, row in zip(array, rows, strict=True):
        line[:len(row)] = row[:length]
    return array
