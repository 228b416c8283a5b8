"""Window attention on a grid: remove noise from an image.

    python examples/attention/window_of_images.py [--seeds=1] [--steps=200]

The data is synthetic: binary images of 16 x 16 pixels with three discs or rectangles each, in which
a quarter of the pixels is flipped; the target is the original image. A window of 2 rows and
2 columns covers 25 pixels, as does a window of 12 in the flattened image.
"""

import keras
import numpy as np
from compare import compare, split
from keras import layers, ops

from keras_attn.layers import PositionwiseFeedForward, WindowAttention

SIDE, HIDDEN_DIM = 16, 32


def rows(count=4_000):
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    images = np.zeros((count, SIDE, SIDE), "int32")
    for image in images:
        for a, b, size in zip(*rng.integers(SIDE, size=(2, 3)), rng.integers(2, 6, 3), strict=True):
            inside = (
                (y - a) ** 2 + (x - b) ** 2 < size**2
                if rng.random() < 0.5
                else ((abs(y - a) < size) & (abs(x - b) < size / 2))
            )
            image[inside] = 1
    return np.where(rng.random(images.shape) < 0.25, 1 - images, images), images


def model(attention=None, flat=False):
    ids = keras.Input((SIDE, SIDE), dtype="int32")
    x = layers.Embedding(2, HIDDEN_DIM)(ids)
    shape = (SIDE * SIDE, HIDDEN_DIM) if flat else (SIDE, SIDE, HIDDEN_DIM)
    x = layers.Reshape(shape)(x)
    for _ in range(2):
        mixer = PositionwiseFeedForward(2 * HIDDEN_DIM) if attention is None else attention()
        x = x + mixer(layers.LayerNormalization()(x))
        x = x + PositionwiseFeedForward(2 * HIDDEN_DIM)(layers.LayerNormalization()(x))
    return keras.Model(ids, ops.reshape(layers.Dense(2)(x), (-1, SIDE, SIDE, 2)))


def main():
    compare(
        {
            "no attention": lambda seed: model(),
            "12, flattened": lambda seed: model(lambda: WindowAttention(2, 16, 12), flat=True),
            "2 x 2": lambda seed: model(lambda: WindowAttention(2, 16, (2, 2))),
        },
        *split(rows(), 512),
        steps=200,
        batch_size=32,
        seeds=1,
        xla=True,
    )


if __name__ == "__main__":
    main()
