"""Global and local attention at once: name hidden characters out of all, and of those nearby.

    python examples/attention/mixed.py [--seeds=1] [--steps=300]

See cloze.py for the task.
"""

from cloze import encoder, rows, self_attention
from compare import compare

from keras_attn.layers import MixedAttention, WindowAttention


def main():
    models = {
        "no attention": lambda seed: encoder(None),
        "local": lambda seed: encoder(lambda number: WindowAttention(4, 16, 4)),
        "global": lambda seed: encoder(lambda number: self_attention(4)),
    }
    for mix in ("gate", "heads", "cascade"):
        models[f"mixed: {mix}"] = lambda seed, mix=mix: encoder(
            lambda number: MixedAttention(4, 16, 4, mix))
    compare(models, *rows(), steps=300, batch_size=16, seeds=1)


if __name__ == "__main__":
    main()
