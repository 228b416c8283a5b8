"""Pooling of a BiLSTM: which package does a docstring come from?

    python examples/attention/pooling.py [--seeds=2] [--steps=250]

Docstrings of installed packages with the package names masked; see labelled_words in compare.py.
The numbers of units differ so that all models have about the same number of weights.
"""

from compare import compare, labelled_words

from keras_attn.models import AttentiveLSTMClassifier

UNITS = {"last": 27, "mean": 27, "max": 27, "attention": 24, "self_attention": 20}


def main():
    train, test, classes = labelled_words(40)
    models = {
        reduce: lambda seed, reduce=reduce, units=units: AttentiveLSTMClassifier(
            4002, classes, embedding_dim=48, units=units, reduce=reduce, dropout=0.3, seed=seed
        )
        for reduce, units in UNITS.items()
    }
    compare(models, train, test, steps=250, batch_size=32, seeds=2)


if __name__ == "__main__":
    main()
