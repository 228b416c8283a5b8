"""Window attention: predict masked characters from their neighbours.

    python examples/attention/window.py [--seeds=1] [--steps=300]

See cloze.py for the task. A window of 8 covers 17 of 256 characters.
"""

from cloze import LONG, encoder, rows
from compare import compare

from keras_attn.layers import WindowAttention


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for window in (2, 8, LONG):
        models[f"{window} on either side"] = lambda seed, window=window: encoder(
            WindowAttention(4, 16, window)
        )
    compare(models, *rows(LONG), steps=300, batch_size=16, seeds=1, xla=True)


if __name__ == "__main__":
    main()
