"""Scores of attention: which of eight pairs has the key that is asked for?

    python examples/attention/scores.py [--seeds=3] [--steps=1000]

The task is made up, see recall.py. Without attention the mean of the pairs is read.
"""

from compare import compare, split
from recall import Recall, rows

from keras_attn.layers import Attention, CosineScore

SCORES = ("dot", "scaled_dot", "bilinear", "concat", "additive")


def main():
    models = {"no attention": lambda seed: Recall()}
    for score in SCORES:
        models[score] = lambda seed, score=score: Recall(Attention(score, seed=seed))
    models["cosine"] = lambda seed: Recall(Attention(CosineScore(10.0, learn_beta=True)))
    compare(models, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
