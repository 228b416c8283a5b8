"""SQuAD files, and windows of passages compared with ones made by hand."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.data.splits import hold_out
from keras_attn.errors import UserError
from keras_attn.tasks.span_qa.examples import (
    Questions,
    cut_windows,
    read_questions,
    window_bounds,
    window_examples,
)
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support import squad_files

WORDS = [f"w{number}" for number in range(40)]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", "who", "e"]
PAD, CLS, SEP = 0, 2, 3


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(PIECES)


def _questions(text, place, question="who", answers=("?",)):
    return Questions(["1"], [question], [text], [list(answers)], [place])


def test_files_of_both_versions_are_read(tmp_path):
    first = squad_files.write(
        tmp_path / "1.json",
        squad_files.paragraph(
            "Łódź is a city.", ("a", "Where?", "Łódź", "a city"), ("b", "What?", "a city")
        ),
    )
    passage = squad_files.paragraph("Nobody knows.", ("c", "Who?"))
    passage["qas"][0] |= {
        "is_impossible": True,
        "plausible_answers": [{"text": "Nobody", "answer_start": 0}],
    }
    second = squad_files.write(tmp_path / "2.json", passage, version="v2.0")
    found = read_questions([first, second])
    assert found.ids == ["a", "b", "c"] and found.questions == ["Where?", "What?", "Who?"]
    assert found.texts == ["Łódź is a city."] * 2 + ["Nobody knows."]
    assert found.answers == [["Łódź", "a city"], ["a city"], []]
    assert found.places == [(0, 4), (8, 14), None]
    assert (found.unanswerable, found.misplaced, found.files) == (1, 0, (first, second))
    assert read_questions(f"{tmp_path}/*.json") == found


def test_to_predict_no_answers_are_needed(tmp_path):
    passage = squad_files.paragraph("Some text.", ("a", "What?"))
    del passage["qas"][0]["answers"]
    path = squad_files.write(tmp_path / "x.json", passage)
    assert read_questions(path, answers=False).answers == [[]]
    with pytest.raises(UserError, match="a list as answers.*question a, without"):
        read_questions(path)


def test_an_answer_that_is_elsewhere_is_an_error_or_counted(tmp_path):
    passage = squad_files.paragraph(
        "A red fox.", ("a", "What?", "fox", "red"), ("b", "How?", "red")
    )
    passage["qas"][0]["answers"][0]["answer_start"] = 7
    passage["qas"][1]["answers"][0]["answer_start"] = -8
    path = squad_files.write(tmp_path / "x.json", passage)
    with pytest.raises(
        UserError, match="'fox', answer_start=7 in .*x.json, article 1, paragraph 1, question a"
    ):
        read_questions(path)
    found = read_questions(path, on_bad_text="skip")
    assert found.answers == [["fox", "red"], ["red"]]  # by which answers are judged
    assert found.places == [(2, 5), None] and found.misplaced == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "must be a JSON object"),
        ({}, "a list as data"),
        ({"data": []}, "at least one question"),
        (
            {"data": [{"paragraphs": [{"context": 3}]}]},
            "a string as context.*article 1, paragraph 1",
        ),
        ({"data": [{"paragraphs": [{"context": "a", "qas": []}]}]}, "at least one question"),
        ({"data": [{}, 3]}, "a list as paragraphs.*article 1"),
        ({"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 7}]}]}]}, "a string as id"),
        (
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "a",
                                "qas": [
                                    {
                                        "id": "i",
                                        "question": "q",
                                        "answers": [{"text": "a", "answer_start": True}],
                                    }
                                ],
                            }
                        ]
                    }
                ]
            },
            "an integer as answer_start.*question i",
        ),
        (
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "a",
                                "qas": [
                                    {
                                        "id": "i",
                                        "question": "q",
                                        "is_impossible": True,
                                        "answers": [{"text": "a", "answer_start": 0}],
                                    }
                                ],
                            }
                        ]
                    }
                ]
            },
            "impossible question must not have answers",
        ),
        (
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "a",
                                "qas": [{"id": "i", "question": "q", "answers": []}] * 2,
                            }
                        ]
                    }
                ]
            },
            "distinct. Received: 'i' twice",
        ),
        (
            {"data": [{"paragraphs": [{"context": "a \ud83d", "qas": []}]}]},
            "unpaired surrogates. Received: context of .*paragraph 1",
        ),
    ],
)
def test_files_that_are_not_squad_are_errors(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match=message):
        read_questions(str(path))


def test_parts_are_held_out_by_passage(tmp_path):
    path = squad_files.write(tmp_path / "x.json", *squad_files.made_up(20))
    train, validation = hold_out(read_questions(path), 0.2, seed=0)
    assert (len(train), len(validation)) == (32, 8)
    assert not set(train.texts) & set(validation.texts)
    assert sorted(train.ids + validation.ids) == sorted(read_questions(path).ids)


@settings(max_examples=200)
@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 30))
def test_windows_begin_where_those_of_run_squad_do(tokens, room, stride):
    # The rule of google-research/bert: advance by the stride or the window, the smaller, until
    # the end is reached.
    found = list(window_bounds(tokens, room, stride))
    assert found[0][0] == 0 and found[-1][1] == tokens
    for (start, end), (following, _) in zip(found, found[1:], strict=False):
        assert end - start == room and end < tokens and following - start == min(stride, room)
    assert found[-1][1] - found[-1][0] <= room


def test_rows_are_cls_question_sep_window_sep_with_the_positions_of_the_answer(tokenizer):
    text = " ".join(WORDS[:10])
    place = text.index("w5"), text.index("w6") + 2
    windows = cut_windows(_questions(text, place), tokenizer, length=9, max_question=5, stride=3)
    # Room for 5 of 10 tokens beside "who": from 0, 3 and 6 on, the shortest first.
    rows = [[int(i) for i in ids] for ids in windows.passages]
    first = PIECES.index("w0")
    assert rows == [
        list(range(first + 6, first + 10)),
        list(range(first, first + 5)),
        list(range(first + 3, first + 8)),
    ]
    assert windows.labels.tolist() == [[0, 0], [0, 0], [3 + 2, 3 + 3]]
    examples = window_examples(windows, tokenizer, length=9, batch_size=4, shuffle=False)
    batch = examples.batch(0)
    assert batch["token_ids"][2].tolist() == [
        CLS,
        PIECES.index("who"),
        SEP,
        *range(first + 3, first + 8),
        SEP,
    ]
    assert batch["segment_ids"][2].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert batch["label"].tolist() == [[0, 0], [0, 0], [5, 6], [0, 0]]
    assert batch["sample_weight"].tolist() == [1, 1, 1, 0]
    assert batch["token_ids"][3].tolist() == [PAD] * 9


def test_a_long_question_is_cut_and_every_question_has_a_window(tokenizer):
    questions = Questions(["a", "b"], ["who " * 9, ""], ["w1 w2", ""], [[], []], [None, None])
    windows = cut_windows(questions, tokenizer, length=10, max_question=4, stride=3)
    assert sorted(windows.rows.tolist()) == [0, 1]
    assert sorted(len(ids) for ids in windows.questions) == [0, 4]
    with pytest.raises(UserError, match="data.length=7, data.max_question=4"):
        cut_windows(questions, tokenizer, length=7, max_question=4, stride=3)


def test_an_answer_in_part_of_a_token_or_in_stripped_accents_has_that_token(tokenizer):
    text = "w1 e\u0301 . w25."
    for answer, wanted in (("\u0301", (4, 4)), ("5", (6, 6)), ("e\u0301 .", (4, 5)), (" ", None)):
        place = text.index(answer), text.index(answer) + len(answer)
        windows = cut_windows(
            _questions(text, place), tokenizer, length=20, max_question=5, stride=9
        )
        assert windows.labels.tolist() == [list(wanted or (0, 0))]
        assert windows.weights.tolist() == [float(wanted is not None)]


def test_questions_with_misplaced_answers_have_weight_0_and_unanswerable_ones_1(tokenizer):
    questions = Questions(["a", "b"], ["who"] * 2, ["w1"] * 2, [["w2"], []], [None, None])
    windows = cut_windows(questions, tokenizer, length=9, max_question=4, stride=3)
    assert dict(zip(windows.rows.tolist(), windows.weights.tolist(), strict=True)) == {0: 0, 1: 1}
    assert not windows.labels.any()


def test_an_answer_that_no_window_holds_is_not_learnt_as_none(tokenizer):
    text = " ".join(WORDS[:10])
    place = text.index("w4"), text.index("w6") + 2
    windows = cut_windows(_questions(text, place), tokenizer, length=9, max_question=5, stride=5)
    assert not windows.labels.any() and not windows.weights.any() and windows.lost == 1
    # By default windows overlap by half.
    windows = cut_windows(_questions(text, place), tokenizer, length=9, max_question=5, stride=None)
    assert windows.labels.any() and windows.weights.all() and windows.lost == 0
    assert sorted(ids[0] for ids in windows.passages) == [
        PIECES.index(f"w{n}") for n in (0, 2, 4, 6)
    ]
    smallest = cut_windows(
        _questions("w1 w2", None, "who who"), tokenizer, length=6, max_question=2, stride=None
    )
    assert len(smallest) == 2


def test_batches_are_a_function_of_seed_and_number(tokenizer, tmp_path):
    path = squad_files.write(tmp_path / "x.json", *squad_files.made_up(9))
    questions = read_questions(path)

    def examples(seed):
        windows = cut_windows(questions, tokenizer, length=30, max_question=9, stride=7)
        return window_examples(windows, tokenizer, length=30, batch_size=4, seed=seed)

    first, again, other = examples(1), examples(1), examples(2)
    for number in (5, 0, 40):
        for name, array in first.batch(number).items():
            np.testing.assert_array_equal(array, again.batch(number)[name])
    assert any((first.batch(n)["label"] != other.batch(n)["label"]).any() for n in range(5))


def test_a_text_in_place_of_a_boolean_is_an_error(tmp_path):
    question = {"id": "i", "question": "q", "is_impossible": "false", "answers": []}
    paragraph = {"context": "a", "qas": [question]}
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    with pytest.raises(UserError, match="is_impossible must be true or false. Received: 'false'"):
        read_questions(str(path))
