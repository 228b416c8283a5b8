"""Self-attention of several heads: name hidden characters out of all around them.

    python examples/attention/self_attention.py [--seeds=1] [--steps=300]

See cloze.py for the task. Without attention a character is named by its place alone.
"""

from cloze import encoder, rows, self_attention
from compare import compare


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for heads in (1, 4):
        models[f"heads: {heads}"] = lambda seed, heads=heads: encoder(
            lambda number: self_attention(heads))
    compare(models, *rows(), steps=300, batch_size=16, seeds=1)


if __name__ == "__main__":
    main()
