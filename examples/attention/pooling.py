"""Pooling of a BiLSTM: which package is a docstring from?

    python examples/attention/pooling.py [--seeds=3] [--steps=400]

Docstrings of installed packages, their names masked; see labelled_words in compare.py.
"""

from compare import compare, labelled_words

from keras_attn.models import AttentiveLSTMClassifier


def main():
    train, test, classes = labelled_words(40)
    models = {reduce: lambda seed, reduce=reduce: AttentiveLSTMClassifier(
        4002, classes, embedding_dim=48, units=24, reduce=reduce, dropout=0.3, seed=seed)
        for reduce in ("last", "mean", "max", "attention", "self_attention")}
    compare(models, train, test, steps=400, batch_size=32)


if __name__ == "__main__":
    main()
