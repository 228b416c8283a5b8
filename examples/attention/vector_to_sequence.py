"""Vector to sequence: write a four-digit number in words, letter by letter.

    python examples/attention/vector_to_sequence.py [--seeds=1] [--steps=1200]

The vector is the one-hot encoding of the digits. The cell reads it at the first step only, or at
every step.
"""

import keras
import numpy as np
from compare import compare, padded, split
from keras import layers

from keras_attn.layers import VectorToSequence

ONES = (
    "",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
TENS = "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"
LONGEST, LETTERS = 44, 128


def in_words(number):
    thousands, hundreds, rest = number // 1000, number // 100 % 10, number % 100
    parts = [
        ONES[thousands] + " thousand",
        ONES[hundreds] + " hundred" if hundreds else "",
        ONES[rest] if rest < 20 else f"{TENS[rest // 10]} {ONES[rest % 10]}".strip(),
    ]
    return " ".join(filter(None, parts))


def rows():
    numbers = np.arange(1000, 10_000)
    digits = np.stack([numbers // 10**place % 10 for place in (3, 2, 1, 0)], axis=1)
    letters = padded([list(in_words(number).encode()) for number in numbers.tolist()], LONGEST)
    known = np.arange(LONGEST) <= np.count_nonzero(letters, axis=1)[:, None]  # one 0: the end
    return np.eye(10, dtype="float32")[digits].reshape(-1, 40), letters, known.astype("float32")


def model(feed):
    return keras.Sequential(
        [
            layers.Dense(64, activation="tanh"),
            VectorToSequence(layers.LSTMCell(96), LONGEST, feed),
            layers.Dense(LETTERS),
        ]
    )


def main():
    compare(
        {"first step": lambda seed: model("first"), "every step": lambda seed: model("every")},
        *split(rows()),
        steps=1200,
        seeds=1,
    )


if __name__ == "__main__":
    main()
