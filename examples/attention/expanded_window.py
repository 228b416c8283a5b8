"""Windows with ways out: name hidden characters out of those nearby and some far away.

    python examples/attention/expanded_window.py [--seeds=1] [--steps=200]

See cloze.py for the task.
"""

from cloze import LONG, encoder, rows
from compare import compare

from keras_attn.layers import ExpandedWindowAttention

WAYS = {
    "4 on either side": {},
    "every second of 8": {"dilation": 2},
    "and the first 4": {"global_tokens": 4},
    "and blocks drawn": {"random_blocks": 1},
}


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for name, ways in WAYS.items():
        models[name] = lambda seed, ways=ways: encoder(ExpandedWindowAttention(
            4, 16, window=1, extension=4, seed=seed, **ways))
    compare(models, *rows(LONG), steps=200, batch_size=16, seeds=1, xla=True)


if __name__ == "__main__":
    main()
