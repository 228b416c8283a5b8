"""Hard attention: read one of eight pairs instead of their average.

    python examples/attention/hard.py [--seeds=3] [--steps=1000]

See recall.py for the task. In training, "gumbel" samples the pair and "reinforce" samples it half
of the time; "straight_through" takes the most likely pair, as all do at test time. The model
without attention has a larger hidden size, for about as many weights.
"""

from compare import compare, split
from recall import Recall, rows

from keras_attn.layers import Attention, HardAttention
from keras_attn.ops import sparse_cross_entropy


class Reinforced(Recall):
    """Trains the sampled choices by REINFORCE, with the log-likelihood of the answer as reward."""

    def read(self, query, states):
        value, self.draws = self.attention(query, states, return_draws=True)
        return value

    def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        if not training:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return self.attention.reinforce_loss(-sparse_cross_entropy(y, y_pred), self.draws)


def main():
    models = {
        "no attention": lambda seed: Recall(hidden_dim=34),
        "soft": lambda seed: Recall(Attention("bilinear", seed=seed)),
    }
    for estimator, model in (
        ("straight_through", Recall),
        ("gumbel", Recall),
        ("reinforce", Reinforced),
    ):
        models[estimator] = lambda seed, estimator=estimator, model=model: model(
            HardAttention(estimator, "bilinear", seed=seed)
        )
    compare(models, *split(rows()), steps=1000)


if __name__ == "__main__":
    main()
