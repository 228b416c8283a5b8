"""Attention over words, then over sentences: which package does a docstring come from?

    python examples/attention/hierarchical.py [--seeds=2] [--steps=150]

Docstrings of installed packages with the package names masked, split into eight lines of ten words;
the flat model reads them as one line of 80. All models have about the same number of weights.
"""

from compare import compare, labelled_words
from keras import ops

from keras_attn.models import AttentiveLSTMClassifier, HierarchicalAttentionNetwork

LINES, WORDS, VOCABULARY = 8, 10, 4000


class Lines(HierarchicalAttentionNetwork):
    """Splits a flat sequence into lines."""

    INPUTS = {"token_ids": "BT"}

    def call(self, inputs, training=None):
        ids = ops.reshape(inputs["token_ids"], (-1, LINES, WORDS))
        return super().call({"token_ids": ids}, training=training)


def lines(classes, seed, attention):
    units = 24 if attention else 27
    model = Lines(
        VOCABULARY + 2,
        classes,
        embedding_dim=48,
        word_units=units,
        sentence_units=units,
        attention_units=48,
        seed=seed,
    )
    if not attention:  # weights of zero: the mean of words and lines
        model({"token_ids": ops.ones((1, LINES * WORDS), "int32")})
        for pooling in (model.attention.word_attention, model.attention.sentence_attention):
            pooling.trainable = False
            pooling.set_weights([0 * weight for weight in pooling.get_weights()])
    return model


def main():
    train, test, classes = labelled_words(LINES * WORDS, VOCABULARY)
    models = {
        "flat, attention": lambda seed: AttentiveLSTMClassifier(
            VOCABULARY + 2, classes, embedding_dim=48, units=33, seed=seed
        )
    }
    for name, attention in (("lines, mean", False), ("lines, attention", True)):
        models[name] = lambda seed, attention=attention: lines(classes, seed, attention)
    compare(models, train, test, steps=150, batch_size=32, seeds=2)


if __name__ == "__main__":
    main()
