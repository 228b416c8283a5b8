"""Metrics of question answering, compared with the SQuAD scripts and values by hand."""

import json
import pathlib
import types

import pytest

from keras_attn.tasks.span_qa.metrics import f1, normalized, reading_metrics
from keras_attn.tasks.span_qa.report import report_reading_baselines

GOLDEN = json.loads((pathlib.Path(__file__).parents[2] / "golden/squad_metrics.json").read_text())
NAMES = {
    "exact": "exact",
    "f1": "f1",
    "HasAns_exact": "has_answer_exact",
    "HasAns_f1": "has_answer_f1",
    "NoAns_exact": "no_answer_exact",
    "NoAns_f1": "no_answer_f1",
    "best_exact": "best_exact",
    "best_f1": "best_f1",
    "best_exact_thresh": "best_exact_threshold",
    "best_f1_thresh": "best_f1_threshold",
}


def _columns(cases):
    return [[case[name] for case in cases] for name in ("right", "answer", "no_answer")]


def test_they_equal_those_of_version_1_1():
    (golden,) = GOLDEN["1.1"]
    found = reading_metrics(*_columns(golden["cases"]))
    assert found == pytest.approx(
        {"exact": golden["printed"]["exact_match"] / 100, "f1": golden["printed"]["f1"] / 100},
        rel=1e-12,
    )


@pytest.mark.parametrize("golden", GOLDEN["2.0"], ids=lambda golden: str(golden["threshold"]))
def test_they_equal_those_of_version_2_0(golden):
    found = reading_metrics(*_columns(golden["cases"]), golden["threshold"])
    wanted = {
        NAMES[name]: value / (1 if "thresh" in name else 100)
        for name, value in golden["printed"].items()
        if "total" not in name
    }
    assert found == pytest.approx(wanted, rel=1e-12)


def test_without_a_threshold_the_best_is_taken():
    columns = _columns(GOLDEN["2.0"][0]["cases"])
    found = reading_metrics(*columns, None)
    threshold = found.pop("threshold")
    assert found == reading_metrics(*columns, found["best_f1_threshold"])
    assert found == reading_metrics(*columns, threshold)
    scores = sorted(columns[2])
    place = scores.index(found["best_f1_threshold"])
    assert threshold == pytest.approx((scores[place] + scores[place + 1]) / 2)
    assert found["f1"] > reading_metrics(*columns, 100.0)["f1"]


def test_case_punctuation_articles_and_spaces_do_not_count():
    assert normalized("  The U.S.\tof a\u00a0man, an… 'Anthem' ") == "us of man … anthem"


def test_f1_is_that_of_bags_of_words_and_of_the_nearest_answer():
    assert f1("the red red fox", ["blue", "red fox fox"]) == pytest.approx(2 / 3)
    assert f1("fox", ["red"]) == 0.0
    assert (f1("the", ["a"], both_empty=0.0), f1("the", ["a"])) == (0.0, 1.0)


@pytest.mark.parametrize("no_answer", [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [-1.0, 2.0, -3.0]])
def test_a_threshold_that_answers_nothing_is_zero_as_in_the_script_and_decides_so(no_answer):
    columns = [["yes"], [], []], ["no", "no", "no"], no_answer
    found = reading_metrics(*columns, None)
    assert (found["best_f1"], found["best_f1_threshold"]) == (pytest.approx(2 / 3), 0.0)
    assert found["f1"] == found["best_f1"] and found["threshold"] < min(no_answer)
    threshold = found.pop("threshold")
    assert found == reading_metrics(*columns, threshold)


@pytest.mark.parametrize(
    ("model", "baseline", "warnings"), [(1.0, 1.0, 0), (0.9, 0.9, 1), (0.9, 0.8, 0)]
)
def test_a_model_below_a_baseline_is_a_warning_unless_it_is_perfect(model, baseline, warnings):
    lines = []
    run = types.SimpleNamespace(
        say=lines.append, family=types.SimpleNamespace(pretraining_tasks=["masked_lm"])
    )
    report_reading_baselines(run, {"f1": model}, {"sentence": {"f1": baseline}})
    assert len(lines) == 1 + warnings
