"""Captions: describe a picture in words, and see which region each word attends to.

    python examples/captions.py [--seeds=1] [--steps=800] [--output=captions.png]

A picture has one to three digits on a grid of 3 x 3 regions, noisy and shifted; its caption is
such as "a three in the upper left and a seven in the center". The memory of the decoder is one
vector per region, as in Xu et al., Show, Attend and Tell, 2015. The score is the fraction of
captions of held-out pictures that are completely right without teacher forcing. --output draws the
attention of the last model that has any over its pictures; it requires matplotlib.
"""

import argparse
import sys

import keras
import numpy as np
from attention.compare import BEGIN, END, PADDING, compare, padded, split
from keras import layers, ops

from keras_attn.layers import Attention, AttentionCell, HardAttention, RecurrentDecoder
from keras_attn.ops import sparse_cross_entropy

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PLACES = [
    f"{row} {column}".replace("middle middle", "center").replace("middle ", "")
    for row in ("upper", "middle", "lower")
    for column in ("left", "middle", "right")
]
WORDS = ["", "?", "<begin>", "<end>", "a", "in", "the", "and", *DIGITS]
WORDS += sorted({word for place in PLACES for word in place.split()})
LONGEST, CELL, GRID = 24, 9, 3  # words, pixels of a region, regions of a row

# 3 x 5 pixels, a row of bits for each line.
GLYPHS = [
    [[int(bit) for bit in f"{line:03b}"] for line in lines]
    for lines in (
        (7, 5, 5, 5, 7),
        (2, 6, 2, 2, 7),
        (7, 1, 7, 4, 7),
        (7, 1, 7, 1, 7),
        (5, 5, 7, 1, 1),
        (7, 4, 7, 1, 7),
        (7, 4, 7, 5, 7),
        (7, 1, 1, 2, 2),
        (7, 5, 7, 5, 7),
        (7, 5, 7, 1, 7),
    )
]


def draw(rng, digits, places):
    """Returns a picture `(27, 27)` of digits in regions."""
    picture = rng.normal(0, 0.2, (GRID * CELL, GRID * CELL))
    for digit, place in zip(digits, places, strict=True):
        row, column = place // GRID * CELL, place % GRID * CELL
        row, column = row + rng.integers(5), column + rng.integers(7)
        picture[row : row + 5, column : column + 3] += GLYPHS[digit]
    return picture.astype("float32")


def describe(digits, places):
    return " and ".join(
        f"a {DIGITS[digit]} in the {PLACES[place]}"
        for digit, place in zip(digits, places, strict=True)
    )


def rows(number=6000):
    """Pictures, target ids and labels `(N, LONGEST)`, and weights of the labels."""
    rng, pictures, captions = np.random.default_rng(0), [], []
    ids = {word: number for number, word in enumerate(WORDS)}
    for _ in range(number):
        count = rng.integers(1, 4)
        digits = rng.integers(10, size=count)
        places = np.sort(rng.choice(GRID * GRID, count, replace=False))  # in reading order
        pictures.append(draw(rng, digits, places))
        captions.append([ids[word] for word in describe(digits, places).split()] + [END])
    label = padded(captions, LONGEST)
    begin = np.full((number, 1), BEGIN, label.dtype)
    target = np.concatenate([begin, label[:, :-1]], axis=1)
    known = (label != PADDING).astype("float32")
    inputs = {"picture": np.array(pictures), "target_ids": target, "label": label, "known": known}
    return inputs


class Captioner(keras.Model):
    """Regions of a picture as the memory of a recurrent decoder."""

    def __init__(self, attention=None, units=96):
        super().__init__()
        self.strokes = layers.Conv2D(units, (5, 3), activation="relu")
        self.regions = layers.Dense(units, activation="relu")
        self.places = layers.Embedding(GRID * GRID, units)
        self.summary = layers.Dense(units, activation="tanh")
        cell = AttentionCell(layers.LSTMCell(units), attention, order="attend_first")
        self.decoder = RecurrentDecoder(cell, len(WORDS), 32)

    def call(self, inputs, training=None):
        picture = inputs["picture"]
        # (B, 27, 27) -> (9 B, 9, 9, 1): a picture for each region.
        cut = ops.reshape(picture, (-1, GRID, CELL, GRID, CELL))
        cut = ops.reshape(ops.transpose(cut, (0, 1, 3, 2, 4)), (-1, CELL, CELL, 1))
        found = ops.max(self.strokes(cut), axis=(1, 2))  # wherever a digit is in its region
        memory = ops.reshape(self.regions(found), (-1, GRID * GRID, found.shape[-1]))
        memory = memory + self.places(ops.arange(GRID * GRID))
        state = self.summary(ops.reshape(memory, (-1, GRID * GRID * memory.shape[-1])))
        return self.decoder(
            inputs["target_ids"],
            memory,
            initial_state=[state, ops.zeros_like(state)],
            teacher_forcing_ratio=1.0 if training else 0.0,
            training=training,
        )

    def compute_loss(self, x, y=None, y_pred=None, sample_weight=None, training=True):
        errors = sparse_cross_entropy(x["label"], y_pred[0]) * x["known"]
        return ops.sum(errors) / ops.sum(x["known"])

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        right = ops.cast(ops.argmax(y_pred[0], axis=-1), "int32") == ops.cast(x["label"], "int32")
        right = ops.all(ops.logical_or(right, x["known"] == 0), axis=1)
        self._captions.update_state(ops.cast(right, "float32"))
        return self.get_metrics_result()

    @property
    def metrics(self):
        if not hasattr(self, "_captions"):
            self._captions = keras.metrics.Mean(name="captions")
        return [*super().metrics, self._captions]


def plot(model, inputs, path, pictures=3):
    """Draws pictures with the region that each word of the caption attends to."""
    from matplotlib.figure import Figure

    batch = {name: array[:pictures] for name, array in inputs.items()}
    logits, weights = (ops.convert_to_numpy(x) for x in model(batch, training=False))
    captions = [[WORDS[i] for i in row] for row in logits.argmax(axis=-1)]
    captions = [words[: words.index("<end>")] if "<end>" in words else words for words in captions]
    columns = max(map(len, captions))
    figure = Figure((1.1 * columns, 1.5 * pictures), layout="constrained")
    axes = figure.subplots(pictures, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for number, words in enumerate(captions):
        for step, word in enumerate(words):
            axis, grid = axes[number, step], weights[number, step].reshape(GRID, GRID)
            axis.imshow(batch["picture"][number], cmap="gray")
            axis.imshow(
                np.kron(grid, np.ones((CELL, CELL))), cmap="Reds", alpha=0.5, vmin=0, vmax=1
            )
            axis.set_title(word, fontsize=9)
    figure.savefig(path, dpi=120)
    print(f"attention drawn in {path}")


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--output")
    options, sys.argv[1:] = parser.parse_known_args()
    made, (train, test) = {}, split(rows())

    def captioner(name, attention):
        made[name] = Captioner(attention)
        return made[name]

    models = {
        "no attention": lambda seed: captioner("none", None),
        "soft": lambda seed: captioner("soft", Attention("additive", seed=seed)),
        "hard": lambda seed: captioner("hard", HardAttention("gumbel", "additive", seed=seed)),
    }
    compare(models, train, test, steps=800, score="captions", seeds=1)
    if options.output:
        plot(made["hard"], test, options.output)


if __name__ == "__main__":
    main()
