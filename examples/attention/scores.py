"""Attention scores: which of eight pairs has the requested key?

    python examples/attention/scores.py [--seeds=3] [--steps=1000]

See recall.py for the task. Without attention, the mean of the pairs is read. Hidden sizes differ so
that all models have about the same number of weights.
"""

from compare import compare, split
from recall import Recall, rows

from keras_attn.layers import Attention, CosineScore

HIDDEN_DIMS = {"dot": 36, "scaled_dot": 36, "bilinear": 34, "concat": 32, "additive": 32}


def main():
    models = {"no attention": lambda seed: Recall(hidden_dim=36)}
    for score, hidden_dim in HIDDEN_DIMS.items():
        models[score] = lambda seed, score=score, hidden_dim=hidden_dim: Recall(
            Attention(score, seed=seed), hidden_dim
        )
    models["cosine"] = lambda seed: Recall(Attention(CosineScore(10.0, learn_beta=True)), 36)
    compare(models, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
