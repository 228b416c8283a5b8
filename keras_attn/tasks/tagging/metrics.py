"""Metrics of tagging: entities by seqeval, and accuracy of words."""

import collections
import itertools
from collections.abc import Sequence

from keras_attn.errors import UserError
from keras_attn.tasks.tagging.schemes import RAW


def metric_names(scheme: str) -> tuple[str, ...]:
    """Returns the names of the metrics; the first one is the default of model selection.

    Raises:
        UserError: If seqeval, which computes those of entities, is not installed.
    """
    if scheme == RAW:
        return ("accuracy",)
    _seqeval()
    return ("f1", "precision", "recall", "accuracy")


def tag_metrics(
    actual: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> dict[str, float]:
    """Returns the metrics of predicted tags.

    Args:
        actual, predicted: Tags of each sentence.
        scheme: `RAW`: only `accuracy`; others: IOB2 tags, also `f1`, `precision` and `recall` of
            entities, micro-averaged, as in CoNLL-2003: an entity is correct if its type and both
            ends are. As in conlleval, an `I` without a beginning begins an entity.

    Reference:
        Tjong Kim Sang & De Meulder, Introduction to the CoNLL-2003 Shared Task, 2003.
    """
    pairs = zip(itertools.chain(*actual), itertools.chain(*predicted), strict=True)
    right = [first == second for first, second in pairs]
    found = {"accuracy": sum(right) / max(1, len(right))}
    if scheme == RAW:
        return found
    precision, recall, f1, _ = _seqeval().precision_recall_fscore_support(
        [*map(list, actual)], [*map(list, predicted)], average="micro", zero_division=0
    )
    return {"f1": float(f1), "precision": float(precision), "recall": float(recall), **found}


def scores_by_type(
    actual: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> dict[str, dict[str, float]]:
    """Returns precision, recall, F1 and the number of entities of each type.

    With `RAW` tags, those of each tag over words.

    Args:
        actual, predicted, scheme: See `tag_metrics`.
    """
    if scheme == RAW:
        return _scores_of_tags(actual, predicted)
    sequences = [*map(list, actual)], [*map(list, predicted)]
    types = sorted(
        {t.partition("-")[2] for tags in itertools.chain(*sequences) for t in tags} - {""}
    )
    if not types:
        return {}
    precisions, recalls, f1, counts = _seqeval().precision_recall_fscore_support(
        *sequences, average=None, zero_division=0
    )
    return {
        kind: _scores(float(precision), float(recall), float(own), int(count))
        for kind, precision, recall, own, count in zip(
            types, precisions, recalls, f1, counts, strict=True
        )
    }


def mean_scores(runs: Sequence[dict]) -> dict[str, dict[str, float]]:
    """Returns the means of `scores_by_type` over runs on the same sentences.

    Args:
        runs: Result of `scores_by_type` for each run.
    """
    kinds = sorted({kind for scores in runs for kind in scores})
    nothing = _scores(0.0, 0.0, 0.0, 0)  # neither labeled nor predicted
    found = {}
    for kind in kinds:
        each = [scores.get(kind, nothing) for scores in runs]
        found[kind] = {name: sum(own[name] for own in each) / len(each) for name in nothing}
        found[kind]["count"] = max(own["count"] for own in each)
    return found


def _scores_of_tags(actual, predicted):
    pairs = collections.Counter(
        zip(itertools.chain(*actual), itertools.chain(*predicted), strict=True)
    )
    labeled, chosen = collections.Counter(), collections.Counter()
    for (tag, prediction), count in pairs.items():
        labeled[tag] += count
        chosen[prediction] += count
    found = {}
    for tag in sorted({*labeled, *chosen}):
        right = pairs[tag, tag]
        precision, recall = right / max(1, chosen[tag]), right / max(1, labeled[tag])
        f1 = 2 * right / (chosen[tag] + labeled[tag])
        found[tag] = _scores(precision, recall, f1, labeled[tag])
    return found


def _scores(precision, recall, f1, count):
    return {"precision": precision, "recall": recall, "f1": f1, "count": count}


def _seqeval():
    try:
        from seqeval.metrics import sequence_labeling
    except ImportError:
        raise UserError(
            "Metrics of entities require seqeval. Run: pip install 'keras-attn[tagging]'"
        ) from None
    return sequence_labeling
