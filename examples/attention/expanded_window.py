"""Windows expanded by dilation, global tokens or random blocks: predict masked characters.

    python examples/attention/expanded_window.py [--seeds=1] [--steps=200]

See cloze.py for the task.
"""

from cloze import LONG, encoder, rows
from compare import compare

from keras_attn.layers import ExpandedWindowAttention

OPTIONS = {
    "4 on either side": {},
    "dilation 2": {"dilation": 2},
    "4 global tokens": {"global_tokens": 4},
    "random blocks": {"random_blocks": 1},
}


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for name, options in OPTIONS.items():
        models[name] = lambda seed, options=options: encoder(
            ExpandedWindowAttention(4, 16, window=1, extension=4, seed=seed, **options)
        )
    compare(models, *rows(LONG), steps=200, batch_size=16, seeds=1, xla=True)


if __name__ == "__main__":
    main()
