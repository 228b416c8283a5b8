"""The line to beat: logistic regression on words and pairs of words."""

import numpy as np

from keras_attn.errors import UserError

# Of all classes together: 8 bytes each, in about 25 arrays while it learns.
MOST_WEIGHTS = 4_000_000


def bag_of_bigrams_accuracy(train_texts, train_labels, test_texts, test_labels):
    """Trains a logistic regression on counts of words and bigrams and tests it.

    It has at most `MOST_WEIGHTS`: the most frequent words and bigrams are counted.

    Args:
        train_texts, test_texts: Strings.
        train_labels, test_labels: Labels, one a text; strings or numbers.

    Returns:
        Share of the test texts labelled right.

    Raises:
        UserError: If scikit-learn is not installed.

    Reference:
        Wang & Manning, Baselines and Bigrams, 2012.
    """
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise UserError(
            "scikit-learn is needed for the baseline: pip install 'keras-attn[report]'. "
            "Received: an environment without it"
        ) from None
    # Words of one letter and punctuation count too: "i", "a", "!", "?".
    counter = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]",
                              max_features=MOST_WEIGHTS // len(set(train_labels)))
    model = LogisticRegression(max_iter=1000)
    model.fit(counter.fit_transform(train_texts), np.asarray(train_labels))
    predicted = model.predict(counter.transform(test_texts))
    return float(np.mean(predicted == np.asarray(test_labels)))
