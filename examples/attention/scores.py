"""Scores of attention: which of eight pairs has the key that is asked for?

    python examples/attention/scores.py [--seeds=3] [--steps=1000]

The task is made up, see recall.py. Without attention the mean of the pairs is read. The fewer
weights a score has, the wider is the model, for about as many in all.
"""

from compare import compare, split
from recall import Recall, rows

from keras_attn.layers import Attention, CosineScore

WIDTHS = {"dot": 36, "scaled_dot": 36, "bilinear": 34, "concat": 32, "additive": 32}


def main():
    models = {"no attention": lambda seed: Recall(width=36)}
    for score, width in WIDTHS.items():
        models[score] = lambda seed, score=score, width=width: Recall(
            Attention(score, seed=seed), width)
    models["cosine"] = lambda seed: Recall(Attention(CosineScore(10.0, learn_beta=True)), 36)
    compare(models, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
