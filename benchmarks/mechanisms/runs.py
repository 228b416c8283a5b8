"""What the tables of mechanisms share: words as integers, training by plain `fit`, kept results."""

import json
import os
import re
import time
from collections import Counter

from absl import flags

from keras_attn.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("output", None, "Folder of the results; what is there is not run again.",
                    required=True)
flags.DEFINE_integer("seeds", 3, "Runs of each kind.", lower_bound=2)

PADDING, UNKNOWN, BEGIN, END = range(4)


def results(name, settings, run):
    """What `run(seed)`, JSON-able, gave with each seed.

    Args:
        name: Of the files that keep it.
        settings: JSON-able; a result of others is refused.
        run: Function of an integer.
    """
    found = []
    for seed in range(FLAGS.seeds):
        path = os.path.join(FLAGS.output, f"{name}-{seed}.json")
        if not os.path.exists(path):
            begin, result = time.monotonic(), run(seed)
            os.makedirs(FLAGS.output, exist_ok=True)
            with open(f"{path}.unfinished", "w") as file:
                json.dump({"settings": settings, "result": result,
                           "seconds": round(time.monotonic() - begin)}, file)
            os.replace(f"{path}.unfinished", path)
        with open(path) as file:
            saved = json.load(file)
        if saved["settings"] != settings:
            raise UserError("Another --output is needed for other settings. Received: "
                            f"{path}, made with {saved['settings']}")
        found.append(saved["result"])
    return found


def told(scores, factor=100.0, digits=1):
    """`mean ± half` of the interval of 95 %."""
    from keras_attn.training.metrics import mean_interval

    mean, half = mean_interval(scores)
    return f"{factor * mean:.{digits}f} ± {factor * half:.{digits}f}"


def fit(model, rows, *, steps, batch_size, rate, seed, losses=None):
    """Trains by Adam, whose rate falls to 0 by a cosine.

    Args:
        rows: Dictionary of arrays, for a model that has its own loss.
        steps: Batches.
        losses: Arguments of `compile` for a model that has none.
    """
    import keras
    import numpy as np

    keras.utils.set_random_seed(seed)
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(optimizer=keras.optimizers.Adam(schedule, global_clipnorm=1.0), **losses or {})
    rng, size = np.random.default_rng(seed), len(next(iter(rows.values())))
    order = np.concatenate([rng.permutation(size) for _ in range(-(-steps * batch_size // size))])
    order = order[:steps * batch_size]
    model.fit(x={name: x[order] for name, x in rows.items()}, batch_size=batch_size,
              shuffle=False, verbose=0)


def accuracy(model, rows, name="accuracy"):
    return model.evaluate(x=rows, batch_size=256, verbose=0, return_dict=True)[name]


def words_of(text):
    """Lower-cased words and marks."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


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
