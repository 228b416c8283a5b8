"""Global and local attention in one layer: predict masked characters.

    python examples/attention/mixed.py [--seeds=1] [--steps=250]

See cloze.py for the task. The window covers 5 of 16 characters.
"""

from cloze import SHORT, encoder, rows, self_attention
from compare import compare

from keras_attn.layers import MixedAttention, WindowAttention


def main():
    models = {
        "no attention": lambda seed: encoder(None),
        "local": lambda seed: encoder(WindowAttention(4, 16, 2)),
        "global": lambda seed: encoder(self_attention(4)),
    }
    for mix in ("gate", "heads", "cascade"):
        models[f"mixed: {mix}"] = lambda seed, mix=mix: encoder(MixedAttention(4, 16, 2, mix))
    compare(models, *rows(SHORT), steps=250, batch_size=128, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
