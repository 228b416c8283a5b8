"""Answers from span logits, against all spans tried one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.tasks.span_qa.answers import find_answers
from keras_attn.tasks.span_qa.examples import Questions, cut_windows
from keras_attn.text.wordpiece import WordPieceTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(30)), "who"]
LENGTH = 12


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(PIECES)


def _windows(tokenizer, texts):
    none = [None] * len(texts)
    return cut_windows(
        Questions(none, ["who", "", "who who"][: len(texts)], texts, none, none),
        tokenizer,
        length=LENGTH,
        max_question=3,
        stride=4,
    )


def _tried(windows, logits, texts, row, max_answer):
    """Every span of a question's windows: the best score of each text, best first."""
    best = {}
    for number in np.flatnonzero(windows.rows == row):
        before, spans = len(windows.questions[number]) + 2, windows.spans[number]
        for i in range(len(spans)):
            for j in range(i, min(i + max_answer, len(spans))):
                text = texts[row][spans[i, 0] : spans[j, 1]]
                score = logits[number, before + i, 0] + logits[number, before + j, 1]
                best[text] = max(best.get(text, -np.inf), score)
    return sorted(best.items(), key=lambda item: -item[1])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_they_are_the_best_of_all_spans_of_all_windows(tokenizer, seed, max_answer):
    random = np.random.default_rng(seed)
    texts = [
        "  ".join(f"W{n}" for n in random.integers(0, 30, count))
        for count in random.integers(1, 25, 3)
    ]
    windows = _windows(tokenizer, texts)
    logits = random.normal(size=(len(windows), LENGTH, 2)).astype("float32")
    for row, answer in enumerate(find_answers(windows, logits, texts, max_answer, count=200)):
        wanted = _tried(windows, logits.astype("float64"), texts, row, max_answer)
        assert [span.text for span in answer.spans] == [text for text, _ in wanted][:200]
        np.testing.assert_allclose(
            [span.score for span in answer.spans], [score for _, score in wanted][:200]
        )
        none = logits[windows.rows == row, 0].sum(axis=1).min()
        assert answer.no_answer == pytest.approx(none - wanted[0][1], abs=1e-5)
        for span in answer.spans:
            assert texts[row][span.start : span.end] == span.text
    one = find_answers(windows, logits, texts, max_answer)
    assert [len(answer.spans) for answer in one] == [1, 1, 1]


def test_the_best_of_different_texts_are_reported(tokenizer):
    texts = ["w1 w1 w1 w2"]
    windows = _windows(tokenizer, texts)
    logits = np.zeros((1, LENGTH, 2))
    logits[0, 3:7, 0] = [4.0, 3.0, 2.0, 1.0]
    for count in (1, 2, 3):
        (answer,) = find_answers(windows, logits, texts, 1, count)
        assert [span.text for span in answer.spans] == ["w1", "w2"][:count]


def test_a_passage_without_tokens_has_an_empty_answer(tokenizer):
    windows = _windows(tokenizer, [" "])
    (answer,) = find_answers(windows, np.ones((1, LENGTH, 2)), [" "], 5)
    assert answer.spans == [("", 2.0, None, None)] and answer.no_answer == 0.0


def test_what_is_beyond_the_passage_is_never_an_answer(tokenizer):
    windows = _windows(tokenizer, ["w1 w2"])
    logits = np.full((1, LENGTH, 2), 9.0)
    logits[0, 3:5] = [[0.0, 1.0], [0.5, 0.0]]
    (answer,) = find_answers(windows, logits, ["w1 w2"], 5, count=9)
    assert [span.text for span in answer.spans] == ["w1", "w2", "w1 w2"]
