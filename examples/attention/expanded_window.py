"""Windows, extended, dilated, with global tokens or random blocks: predict masked characters.

    python examples/attention/expanded_window.py [--seeds=1] [--steps=200]

See cloze.py for the task.
"""

from cloze import LONG, encoder, rows
from compare import compare

from keras_attn.layers import ExpandedWindowAttention

OPTIONS = {
    "9 from each character on": {"window": 9, "extension": 0},
    "3, extended by 3 on either side": {"window": 3, "extension": 3},
    "4 on either side": {},
    "dilation 2": {"dilation": 2},
    "4 global tokens": {"global_tokens": 4},
    "random blocks": {"random_blocks": 1},
}


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for name, options in OPTIONS.items():
        models[name] = lambda seed, options=options: encoder(
            ExpandedWindowAttention(4, 16, seed=seed, **{"window": 1, "extension": 4} | options)
        )
    compare(models, *rows(LONG), steps=200, batch_size=16, seeds=1, xla=True)


if __name__ == "__main__":
    main()
