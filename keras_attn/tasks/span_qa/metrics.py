"""Metrics of extractive question answering, as in the SQuAD evaluation scripts.

They are in [0, 1]; the scripts print percentages.
"""

import collections
import math
import re
import string

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer):
    """Returns an answer in lower case without punctuation, articles and extra white space."""
    plain = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer, right):
    """Returns 1.0 if the normalized answer is one of the normalized right ones, else 0.0."""
    return float(any(normalized(answer) == normalized(one) for one in right))


def f1(answer, right, both_empty=1.0):
    """Returns the maximum word F1 of an answer over the right answers.

    Args:
        answer: String.
        right: Strings, at least one.
        both_empty: F1 if neither has a word: 0.0 in version 1.1 of the script.
    """
    return max(
        _overlap(normalized(answer).split(), normalized(one).split(), both_empty) for one in right
    )


def _overlap(found, right, both_empty):
    if not found or not right:
        return both_empty if found == right else 0.0
    same = sum((collections.Counter(found) & collections.Counter(right)).values())
    if not same:
        return 0.0
    precision, recall = same / len(found), same / len(right)
    return 2 * precision * recall / (precision + recall)


def question_scores(right, answers):
    """Returns the scores of answers, by version 2.0 of the script if a question has no answer.

    Args:
        right: List of the right answers to each question; [] if it has no answer.
        answers: Answer to each question.

    Returns:
        Dict of `f1` and `exact`, float64 `(N,)`.
    """
    both_empty = float(not all(right))
    if both_empty:
        right = [[one for one in own if normalized(one)] or [""] for own in right]
    pairs = list(zip(answers, right, strict=True))
    return {
        "f1": np.array([f1(answer, own, both_empty) for answer, own in pairs]),
        "exact": np.array([exact_match(answer, own) for answer, own in pairs]),
    }


def best_threshold(scores, right, answers, no_answer):
    """Returns the threshold of `no_answer` with the best mean score.

    Args:
        scores: Score of each answer, `(N,)`.
        right: List of the right answers to each question.
        answers: Answer to each question, regardless of `no_answer`.
        no_answer: A number for each question; above the threshold there is no answer.

    Returns:
        (best mean score, threshold), as in the script: the first of equal thresholds, and 0.0 if
        answering no question is best.
    """
    answerable = np.array([bool(own) for own in right])
    given = np.array([bool(answer) for answer in answers])
    gains = np.where(answerable, scores, -given.astype(np.float64))
    order = np.argsort(no_answer, kind="stable")
    sums = np.cumsum([np.sum(~answerable), *gains[order]])
    best = int(np.argmax(sums))
    threshold = float(np.asarray(no_answer)[order[best - 1]]) if best else 0.0
    return float(sums[best] / len(right)), threshold


def reading_metrics(right, answers, no_answer, threshold=math.inf):
    """Computes the metrics of the SQuAD scripts.

    Args:
        right: List of the right answers to each question; [] if it has no answer.
        answers: Answer to each question, regardless of `no_answer`.
        no_answer: A number for each question.
        threshold: Value of `no_answer` above which the prediction is that there is no answer;
            None: a threshold that makes the same decisions as the best one for F1.

    Returns:
        Dict of `f1` and `exact`. If some questions have no answer, also `has_answer_*` and
        `no_answer_*`, the metrics of questions with and without an answer; `best_*` and
        `best_*_threshold`, the best values over thresholds; and the chosen `threshold` if none is
        given.
    """
    answerable = np.array([bool(own) for own in right])
    scores = question_scores(right, answers)
    best = {}
    if not answerable.all():
        for name in ("exact", "f1"):
            best[f"best_{name}"], best[f"best_{name}_threshold"] = best_threshold(
                scores[name], right, answers, no_answer
            )
    if threshold is None:
        threshold = math.inf
        if best:
            threshold = best["threshold"] = (
                _above(best["best_f1_threshold"], no_answer)
                if best["best_f1"] > np.mean(~answerable)
                else float(min(no_answer)) - 1.0
            )
    none = np.asarray(no_answer) > threshold
    scores = {name: np.where(none, ~answerable, score) for name, score in scores.items()}
    found = {name: float(np.mean(score)) for name, score in scores.items()}
    if answerable.all():
        return found
    for kind, rows in (("has_answer", answerable), ("no_answer", ~answerable)):
        if rows.any():
            found.update(
                {f"{kind}_{name}": float(np.mean(score[rows])) for name, score in scores.items()}
            )
    return {**found, **best}


def _above(threshold, no_answer):
    """Returns the middle between a threshold and the next higher score.

    It makes the same decisions. The threshold itself equals the score of a question, which rounding
    in another batch may move to either side.
    """
    higher = [score for score in no_answer if score > threshold]
    return (threshold + min(higher)) / 2 if higher else threshold + 1.0
