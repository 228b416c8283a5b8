"""Multi-head self-attention: predict masked characters from all others.

    python examples/attention/self_attention.py [--seeds=1] [--steps=200]

See cloze.py for the task; sequences have 16 characters. Without attention, the prediction depends
on the position alone.
"""

from cloze import SHORT, encoder, rows, self_attention
from compare import compare


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for heads in (1, 4):
        models[f"heads: {heads}"] = lambda seed, heads=heads: encoder(self_attention(heads))
    compare(models, *rows(SHORT), steps=200, batch_size=256, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
