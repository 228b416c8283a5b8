"""Hard attention: one of eight pairs is read, not their average.

    python examples/attention/hard.py [--seeds=3] [--steps=1000]

The task is made up, see recall.py. In training "gumbel" draws the pair, "reinforce" half of the
time; "straight_through" takes the likeliest, as all do later. The model without attention is
wider, for as many weights.
"""

from compare import compare, split
from recall import Recall, rows

from keras_attn.layers import Attention, HardAttention
from keras_attn.ops import sparse_cross_entropy


class Reinforced(Recall):
    """No gradient passes through a choice: choices learn by how likely the answer became."""

    def read(self, query, states):
        value, self.draws = self.attention(query, states, return_draws=True)
        return value

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        if not training:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return self.attention.reinforce_loss(-sparse_cross_entropy(y, y_pred), self.draws)


def main():
    models = {"no attention": lambda seed: Recall(width=34),
              "soft": lambda seed: Recall(Attention("bilinear", seed=seed))}
    for estimator, model in (("straight_through", Recall), ("gumbel", Recall),
                             ("reinforce", Reinforced)):
        models[estimator] = lambda seed, estimator=estimator, model=model: model(
            HardAttention(estimator, "bilinear", seed=seed))
    compare(models, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
