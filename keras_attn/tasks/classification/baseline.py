"""Baselines of a finetuned model: a bag of bigrams and a constant prediction."""

import dataclasses
import warnings

import numpy as np

from keras_attn.errors import UserError, first_line
from keras_attn.tasks.classification.report_numbers import decisions, one_hot

# Of all classes together; training takes about 25 arrays of 8 bytes per weight.
MAX_WEIGHTS = 4_000_000
MOST_BASELINE_ROWS = 50_000


@dataclasses.dataclass(frozen=True)
class Baselines:
    """A metric of a model and of its baselines on the validation split.

    Attributes:
        metric: "accuracy" (multilabel: all labels of a row are correct) or "mean_squared_error".
        model: Value of the model.
        bag_of_bigrams: Value of `bag_of_bigrams`, or the reason why there is none.
        constant: Value of the constant prediction: the most frequent class or set of labels, or
            the mean.
        constant_class: The most frequent class or set of labels; None for the mean.
        predicted_class: Prediction of the model if it is the same for all rows, else None.
    """

    metric: str
    model: float
    bag_of_bigrams: float | str
    constant: float
    constant_class: str | None
    predicted_class: str | None

    @property
    def scores(self):
        """The entry `to_beat` of results.json."""
        constant = "mean" if self.constant_class is None else "most_frequent"
        return {"bag_of_bigrams": self.bag_of_bigrams, constant: self.constant}

    @property
    def model_is_better(self):
        """Whether the model is perfect or better than both baselines."""
        best = self.constant
        sign = -1 if self.metric == "mean_squared_error" else 1
        if not isinstance(self.bag_of_bigrams, str):
            best = sign * max(sign * best, sign * self.bag_of_bigrams)
        return sign * self.model > sign * best or self.model == max(sign, 0)

    def __str__(self):
        bigrams, constant = self.bag_of_bigrams, "most frequent class"
        if self.constant_class is None:
            constant = "mean of the training labels"
        return " · ".join(
            (
                f"{self.metric.replace('_', ' ')} {self.model:.3f}",
                f"bag of bigrams {bigrams if isinstance(bigrams, str) else f'{bigrams:.3f}'}",
                f"{constant} {self.constant:.3f}",
            )
        )


def report_baselines(run, baselines, advice):
    """Prints the metric of the model and its baselines, and warns if it is not better.

    Args:
        run: `Run`.
        baselines: `Baselines`.
        advice: Sentence for a model that is not better.
    """
    run.say(baselines)
    if baselines.predicted_class is not None:
        run.say(
            f"warning: the model predicts {baselines.predicted_class!r} for every validation "
            f"row. {advice}"
        )
    elif not baselines.model_is_better:
        run.say(f"warning: the model is not better than its baselines. {advice}")


def report_ranking(run, mrr, random, advice):
    """Prints the mean reciprocal rank and that of a random order, and warns if it is not better.

    Args:
        run, advice: See `report_baselines`.
        mrr: Mean reciprocal rank of the model.
        random: See `mrr_of_random_order`.
    """
    run.say(f"mrr {mrr:.3f} · random order {random:.3f}")
    if mrr <= random < 1:
        run.say(f"warning: the model does not rank better than a random order. {advice}")


def compute_baselines(tables, names, encoded, predicted, kind):
    """Compares a model with its baselines on the validation rows.

    Args:
        tables: `Table` of each split, `train` and `validation`.
        names: Names of the classes; () for regression.
        encoded: Labels of each split; see `encode_labels`.
        predicted: Predictions of the model for the validation split; see `probabilities`.
        kind: See `probabilities`.

    Returns:
        `Baselines`.
    """
    labels, bigrams = encoded["validation"], _bag_of_bigrams_or_reason(tables, encoded, kind)
    if kind == "regression":
        predictions = predicted[:, 0], bigrams, np.mean(encoded["train"])
        return Baselines(
            "mean_squared_error",
            *(
                found if isinstance(found, str) else float(np.mean(np.square(found - labels)))
                for found in predictions
            ),
            None,
            None,
        )
    actual, chosen, _, right = decisions(labels, predicted, kind)
    if not isinstance(bigrams, str):
        same = bigrams == labels
        bigrams = float(np.mean(same.all(axis=1) if kind == "multilabel" else same))
    training = (
        encoded["train"] > 0 if kind == "multilabel" else one_hot(encoded["train"], len(names))
    )
    sets, counts = np.unique(training, axis=0, return_counts=True)
    frequent = sets[counts.argmax()]
    constant = (chosen == chosen[0]).all() and len(sets) > 1 and len(chosen) > 1
    return Baselines(
        "accuracy",
        float(np.mean(right.all(axis=1))),
        bigrams,
        float(np.mean((actual == frequent).all(axis=1))),
        _joined(names, frequent),
        _joined(names, chosen[0]) if constant else None,
    )


def _joined(names, chosen):
    return ", ".join(names[c] for c in np.flatnonzero(chosen)) or "no label"


def _bag_of_bigrams_or_reason(tables, encoded, kind):
    """Returns the predictions of the bag of bigrams, or the reason why there are none."""
    texts = {
        split: [" ".join(both) for both in zip(rows.texts, rows.text_pairs, strict=True)]
        if rows.text_pairs
        else rows.texts
        for split, rows in tables.items()
    }
    train = np.unique(np.linspace(0, len(texts["train"]) - 1, MOST_BASELINE_ROWS).astype(int))
    try:
        with warnings.catch_warnings():  # few rows per class, which the accuracy shows
            warnings.simplefilter("ignore")
            return bag_of_bigrams(
                [texts["train"][row] for row in train],
                encoded["train"][train],
                texts["validation"],
                kind,
            )
    except (ValueError, MemoryError) as error:  # no scikit-learn, one class, no word
        return first_line(error)


def bag_of_bigrams_accuracy(train_texts, train_labels, test_texts, test_labels):
    """Returns the accuracy of `bag_of_bigrams` on test texts."""
    predicted = bag_of_bigrams(train_texts, train_labels, test_texts)
    return float(np.mean(predicted == np.asarray(test_labels)))


def bag_of_bigrams(train_texts, train_labels, test_texts, kind="single_label"):
    """Trains a logistic regression on counts of words and bigrams, and predicts.

    The features are the most frequent words and bigrams, so that it has at most `MAX_WEIGHTS`
    weights.

    Args:
        train_texts, test_texts: Strings.
        train_labels: Strings or numbers `(N,)`; for multilabel 0 and 1 `(N, C)`, with a logistic
            regression per label; for regression, which is ridge regression, numbers `(N,)`.
        kind: "single_label", "multilabel" or "regression".

    Returns:
        Labels of the test texts, in the form of `train_labels`.

    Raises:
        UserError: If scikit-learn is not installed.

    Reference:
        Wang & Manning, Baselines and Bigrams, 2012.
    """
    try:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
        from threadpoolctl import threadpool_limits  # required by scikit-learn
    except ImportError:
        raise UserError(
            "not available without scikit-learn: pip install 'keras-attn[report]'"
        ) from None
    labels = np.asarray(train_labels)
    columns = {
        "single_label": len(np.unique(labels)),
        "multilabel": labels.shape[-1],
        "regression": 1,
    }[kind]
    # Include words of one letter and punctuation: "i", "a", "!", "?".
    counter = CountVectorizer(
        ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]", max_features=MAX_WEIGHTS // columns
    )
    known, test = counter.fit_transform(train_texts), counter.transform(test_texts)

    def predicted(model, column):
        if len(set(column.tolist())) == 1 and kind == "multilabel":  # one class
            return np.full(len(test_texts), column[0])
        # Several BLAS threads made this ten times slower while other processes ran.
        with threadpool_limits(1):
            return model.fit(known, column).predict(test)

    if kind == "regression":
        return predicted(Ridge(), labels.astype(np.float64))
    if kind == "multilabel":
        return np.stack(
            [predicted(LogisticRegression(max_iter=1000), column) for column in labels.T], axis=1
        )
    return predicted(LogisticRegression(max_iter=1000), labels)
