"""Metrics of reading comprehension, by the rules of SQuAD's own evaluation scripts.

Shares in [0, 1]; the scripts print 100 times these.
"""

import collections
import math
import re
import string

import numpy as np

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer):
    """An answer in lower case without ASCII punctuation, English articles and extra whitespace."""
    plain = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer, right):
    """1.0 if the answer is one of the right ones when both are `normalized`, else 0.0."""
    return float(any(normalized(answer) == normalized(one) for one in right))


def f1(answer, right, both_empty=1.0):
    """The best F1, over the right answers, of their words and those of the answer as bags.

    Args:
        answer: String.
        right: Strings, at least one.
        both_empty: What counts if neither has a word: 0.0 in version 1.1 of the script.
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
    """What each answer is worth: by version 2.0 of the script if a question has no answer.

    Args:
        right: Of each question a list of strings; an empty one if it has no answer.
        answers: String for each.

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
    """The threshold of `no_answer`, above which there is none, of the best mean score.

    Args:
        scores: What each answer is worth, `(N,)`.
        right: Of each question a list of strings.
        answers: String for each, whatever `no_answer` is.
        no_answer: A number for each, the higher the less of an answer there is.

    Returns:
        (best mean, threshold), as the script finds them: of equal ones the first, and 0.0 where
        no threshold is better than to answer no question.
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
    """Computes what SQuAD's scripts do.

    Args:
        right: Of each question a list of strings; an empty one if it has no answer.
        answers: String for each, whatever `no_answer` is.
        no_answer: A number for each.
        threshold: Where `no_answer` is above it, the answer is taken to be that there is none.
            None: one that decides as the best for F1 does.

    Returns:
        Dict of `f1` and `exact`, and if some questions have no answer also of `has_answer_*` and
        `no_answer_*`, the same of the two kinds apart, and `best_*` and `best_*_threshold`, what
        they could be and with which threshold; and without one, the `threshold` taken.
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
    """The middle between a threshold and the next higher score.

    It decides alike. But the best threshold is itself the score of a question, which may come out
    on either side of it when it is computed in another batch.
    """
    higher = [score for score in no_answer if score > threshold]
    return (threshold + min(higher)) / 2 if higher else threshold + 1.0
