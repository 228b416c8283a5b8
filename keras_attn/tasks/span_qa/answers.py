"""Decoding of the span logits of windows into answers, in characters of the passage."""

from typing import NamedTuple

import numpy as np


class Span(NamedTuple):
    """Span of a passage; if the passage has no tokens, the text is empty and `start` None.

    `score` is the sum of the logits of its first and its last token.
    """

    text: str
    score: float
    start: int | None
    end: int | None


class Answer(NamedTuple):
    """Result for a question.

    Attributes:
        spans: The best spans with distinct texts, best first; at least one.
        no_answer: Score of "no answer", the minimum over windows, minus the score of the best span.
    """

    spans: list[Span]
    no_answer: float


def find_answers(windows, logits, texts, max_answer, count=1):
    """Finds the spans with the highest sums of logits.

    Args:
        windows: `Windows`.
        logits: Logits of the first and the last token in the row of each window, `(N, T, 2)` or a
            list of `(T, 2)`; padding is ignored.
        texts: The passage of each question.
        max_answer: Maximum number of tokens of an answer.
        count: Number of spans with distinct texts.

    Returns:
        A list with the `Answer` to each question.

    Reference:
        Devlin et al., BERT, 2018, sections 4.2 and 4.3.
    """
    found = [[] for _ in texts]
    none = np.full(len(texts), np.inf)
    for number, (row, table) in enumerate(zip(windows.rows, logits, strict=True)):
        none[row] = min(none[row], float(np.sum(table[0], dtype=np.float64)))
        before = windows.passage_start(number)
        spans = windows.spans[number]
        inside = np.asarray(table[before : before + len(spans)], np.float64)
        distinct = set()
        for score, first, last in _best(inside, max_answer, count == 1):
            start, end = int(spans[first, 0]), int(spans[last, 1])
            text = texts[row][start:end]
            if text not in distinct:
                distinct.add(text)
                found[row].append(Span(text, score, start, end))
            if len(distinct) == count:
                break
    return [_answer(spans, float(score), count) for spans, score in zip(found, none, strict=True)]


def _answer(spans, none, count):
    if not spans:  # of a passage without tokens
        return Answer([Span("", none, None, None)], 0.0)
    distinct = {}
    for span in sorted(spans, key=lambda span: -span.score):
        distinct.setdefault(span.text, span)
    best = list(distinct.values())[:count]
    return Answer(best, none - best[0].score)


def _best(logits, max_answer, only):
    """Yields (score, first, last) of the spans of a window `(tokens, 2)`, best first.

    With `only`, it yields the best one, without sorting.
    """
    tokens, longest = len(logits), min(max_answer, len(logits))
    if not tokens:
        return
    ends = np.append(logits[:, 1], np.full(longest - 1, -np.inf))
    # sums[i, d]: score of the span of d + 1 tokens that starts at i
    sums = logits[:, :1] + np.lib.stride_tricks.sliding_window_view(ends, longest)
    flat = sums.reshape(-1)
    indices = [flat.argmax()] if only else np.argsort(-flat, kind="stable")
    for index in indices:
        first, more = divmod(int(index), longest)
        if first + more < tokens:
            yield float(flat[index]), first, first + more
