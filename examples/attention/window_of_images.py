"""Window attention on a grid: clean a picture of noise.

    python examples/attention/window_of_images.py [--seeds=1] [--steps=200]

Made up: pictures of 16 x 16 black and white points, three discs and rectangles each, in which a
quarter of all points is turned; the answer is the picture before. A window of 2 rows and 2
columns sees 25 points, one of 12 along the rows as many in a line.
"""

import keras
import numpy as np
from compare import compare, split
from keras import layers, ops

from keras_attn.layers import PositionwiseFeedForward, WindowAttention

SIDE, WIDTH = 16, 32


def rows(count=4_000):
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    pictures = np.zeros((count, SIDE, SIDE), "int32")
    for picture in pictures:
        for a, b, size in zip(*rng.integers(SIDE, size=(2, 3)), rng.integers(2, 6, 3), strict=True):
            inside = (y - a)**2 + (x - b)**2 < size**2 if rng.random() < 0.5 else (
                (abs(y - a) < size) & (abs(x - b) < size / 2))
            picture[inside] = 1
    return np.where(rng.random(pictures.shape) < 0.25, 1 - pictures, pictures), pictures


def model(attention=None, flat=False):
    ids = keras.Input((SIDE, SIDE), dtype="int32")
    x = layers.Embedding(2, WIDTH)(ids)
    shape = (SIDE * SIDE, WIDTH) if flat else (SIDE, SIDE, WIDTH)
    x = layers.Reshape(shape)(x)
    for _ in range(2):
        mixer = PositionwiseFeedForward(2 * WIDTH) if attention is None else attention()
        x = x + mixer(layers.LayerNormalization()(x))
        x = x + PositionwiseFeedForward(2 * WIDTH)(layers.LayerNormalization()(x))
    return keras.Model(ids, ops.reshape(layers.Dense(2)(x), (-1, SIDE, SIDE, 2)))


def main():
    compare({
        "no attention": lambda seed: model(),
        "12 along the rows": lambda seed: model(lambda: WindowAttention(2, 16, 12), flat=True),
        "2 x 2": lambda seed: model(lambda: WindowAttention(2, 16, (2, 2))),
    }, *split(rows(), 512), steps=200, batch_size=32, seeds=1, xla=True)


if __name__ == "__main__":
    main()
