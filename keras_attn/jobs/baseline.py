"""The line to beat: a linear model of words and pairs of words."""

import numpy as np

from keras_attn.errors import UserError

# Of all classes together: 8 bytes each, in about 25 arrays while it learns.
MOST_WEIGHTS = 4_000_000


def bag_of_bigrams_accuracy(train_texts, train_labels, test_texts, test_labels):
    """Share of the test texts that `bag_of_bigrams` labels right."""
    predicted = bag_of_bigrams(train_texts, train_labels, test_texts)
    return float(np.mean(predicted == np.asarray(test_labels)))


def bag_of_bigrams(train_texts, train_labels, test_texts, kind="single_label"):
    """Trains a logistic regression on counts of words and bigrams, and predicts.

    It has at most `MOST_WEIGHTS`: the most frequent words and bigrams are counted.

    Args:
        train_texts, test_texts: Strings.
        train_labels: One a text, strings or numbers `(N,)`; of several labels 0 and 1 `(N, C)`,
            each learnt by itself; for regression, which is ridge regression, numbers `(N,)`.
        kind: "single_label", "multilabel" or "regression".

    Returns:
        Labels of the test texts, as those of training.

    Raises:
        UserError: If scikit-learn is not installed.

    Reference:
        Wang & Manning, Baselines and Bigrams, 2012.
    """
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
    except ImportError:
        raise UserError(
            "scikit-learn is needed for the baseline: pip install 'keras-attn[report]'. "
            "Received: an environment without it"
        ) from None
    labels = np.asarray(train_labels)
    columns = {"single_label": len(np.unique(labels)),
               "multilabel": labels.shape[-1], "regression": 1}[kind]
    # Words of one letter and punctuation count too: "i", "a", "!", "?".
    counter = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]",
                              max_features=MOST_WEIGHTS // columns)
    known, asked = counter.fit_transform(train_texts), counter.transform(test_texts)

    def predicted(model, column):
        if len(set(column.tolist())) == 1 and kind == "multilabel":  # nothing to tell apart
            return np.full(len(test_texts), column[0])
        return model.fit(known, column).predict(asked)

    if kind == "regression":
        return predicted(Ridge(), labels.astype(np.float64))
    if kind == "multilabel":
        return np.stack([predicted(LogisticRegression(max_iter=1000), column)
                         for column in labels.T], axis=1)
    return predicted(LogisticRegression(max_iter=1000), labels)
