"""The report of real runs."""

import json
import sys

import numpy as np
import pytest
from sklearn import metrics

from keras_attn import finetune, load
from keras_attn.errors import UserError
from keras_attn.registry import TASKS
from keras_attn.runs.sweep_report import write_runs_report
from keras_attn.tasks.classification import baseline
from keras_attn.tasks.classification.baseline import bag_of_bigrams_accuracy
from keras_attn.tasks.classification.labels import LabelSet
from keras_attn.tasks.classification.report_numbers import mean_class_scores
from keras_attn.workdir import Workdir
from tests.support.small_reports import LABELS, TEXTS, Reader, config_of, finetuned

pytestmark = pytest.mark.runs


def _read(run):
    return Reader((run / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The workdir of a classifier, and its results."""
    return finetuned(tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def predicted(single):
    """Labels of the validation rows, and what the saved model predicts for them."""
    found = load(str(single[0])).predict([text for text in TEXTS for _ in LABELS])
    return list(LABELS) * len(TEXTS), found


def test_it_has_the_results_and_the_baselines(single):
    run, results = single
    read = _read(run)
    assert read.numbers == {name: f"{results[name]:.3f}" for name in ("accuracy", "f1", "loss")}
    _, model, bigrams, constant = read.tables["Accuracy and baselines"]
    assert model[:3] == ["this model", "0.500", "0.254 to 0.746"]
    words = [f"{('lovely', 'awful')[number % 2]} film {number}" for number in range(60)]
    beat = bag_of_bigrams_accuracy(
        words,
        [number % 2 for number in range(60)],
        [text for text in TEXTS for _ in LABELS],
        [0, 1] * len(TEXTS),
    )
    assert bigrams[:2] == ["bag of bigrams, logistic regression", f"{beat:.3f}"]
    assert constant[1] == "0.500"


def test_its_tables_are_those_of_scikit_learn(single, predicted):
    labels, found = predicted
    predictions = [one["label"] for one in found]
    names = list(LabelSet.from_labels(LABELS).names)
    scores = metrics.precision_recall_fscore_support(
        labels, predictions, labels=names, zero_division=0
    )
    read = _read(single[0])
    for row, *wanted in zip(
        read.tables["Scores of the classes"][1:], names, *scores, strict=False
    ):  # averages follow
        assert row == [wanted[0], *(f"{value:.3f}" for value in wanted[1:4]), str(wanted[4]), "30"]
    f1 = metrics.f1_score(labels, predictions, average="macro")
    assert read.tables["Scores of the classes"][3][3] == f"{f1:.3f}"
    counts = metrics.confusion_matrix(labels, predictions, labels=names)
    assert [row[1:] for row in read.tables["Confusion matrix"][1:]] == [
        [str(count) if count else "·" for count in row] for row in counts
    ]
    assert sum(int(row[1]) for row in read.tables["Calibration"][1:]) == len(labels)


def test_it_shows_wrong_rows_by_decreasing_confidence(single, predicted):
    labels, found = predicted
    wrong = [
        (-max(one["probabilities"].values()), row)
        for row, one in enumerate(found)
        if one["label"] != labels[row]
    ]
    shown = [" ".join(TEXTS[row // 2].split())[:300] for _, row in sorted(wrong)]
    for quote, text in zip(_read(single[0]).quotes, shown, strict=True):
        assert quote[:4] == text[:4] and abs(len(quote) - len(text)) <= 1


def test_it_loads_nothing_and_runs_nothing(single):
    elements = _read(single[0]).elements
    assert not {name for name, _ in elements} & {"script", "img", "link", "iframe", "object", "b"}
    assert not [given for _, given in elements if {"src", "href", "onload"} & set(given)]
    page = (single[0] / "report.html").read_text(encoding="utf-8")
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page


def test_a_finished_run_writes_the_same_page_again(single, capsys):
    run, _ = single
    page = (run / "report.html").read_bytes()
    (run / "report.html").write_text("old")
    finetune(config_of(run.parent), workdir=str(run))
    assert (run / "report.html").read_bytes() == page
    assert str(run / "report.html") in capsys.readouterr().out.splitlines()
    assert not list(run.glob("report.html*.tmp"))


def test_what_cannot_be_written_is_an_error(single):
    run, _ = single
    (run / "report.html").rename(run / "kept.html")
    (run / "report.html").mkdir()
    try:
        with pytest.raises(UserError, match="report.html"):
            finetune(config_of(run.parent), workdir=str(run))
    finally:
        (run / "report.html").rmdir()
        (run / "kept.html").rename(run / "report.html")


def test_without_scikit_learn_the_page_says_what_to_install(single, monkeypatch):
    run, _ = single
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    finetune(config_of(run.parent), workdir=str(run))
    row = _read(run).tables["Accuracy and baselines"][2]
    assert "pip install 'keras-attn[report]'" in row[1]


def test_a_baseline_that_takes_too_much_memory_costs_its_row_alone(single, monkeypatch):
    def fail(*_):
        raise MemoryError

    run, _ = single
    monkeypatch.setattr(baseline, "bag_of_bigrams", fail)
    finetune(config_of(run.parent), workdir=str(run))
    assert "MemoryError" in _read(run).tables["Accuracy and baselines"][2][1]


def test_a_baseline_of_fewer_rows_says_so(single, monkeypatch):
    run, _ = single
    monkeypatch.setattr(baseline, "MOST_BASELINE_ROWS", 10)
    finetune(config_of(run.parent), workdir=str(run))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "The bag of bigrams is trained on 10 of the 60 training rows" in page


def test_pairs_show_both_texts_and_the_page_is_of_the_best_weights(tmp_path):
    # A rate that wrecks the model: the first evaluation is the best, the last one another.
    run, results = finetuned(
        tmp_path,
        **{
            "data.text_pair": "pair",
            "model.pooling": "cls",
            "train.steps": 6,
            "eval.every": 1,
            "eval.metric": "loss",
            "train.learning_rate": 3.0,
            "train.schedule": "constant",
        },
    )
    read = _read(run)
    assert results["best_step"] < 6
    predicted = load(str(run)).predict(
        [text for text in TEXTS for _ in LABELS], [text[::-1] for text in TEXTS for _ in LABELS]
    )
    predictions = [max(one["probabilities"].values()) for one in predicted]
    rows = np.array([[float(cell) for cell in row[1:3]] for row in read.tables["Calibration"][1:]])
    assert rows[:, 0] @ rows[:, 1] / 12 == pytest.approx(np.mean(predictions), abs=1e-3)
    assert len(read.quotes) == 2 * len(TEXTS)
    assert "have a selection bias" in (run / "report.html").read_text(encoding="utf-8")


def test_several_labels_a_row(tmp_path):
    texts = [f"{word} text" for word in ("red", "blue", "red blue", "no") for _ in range(6)]
    rows = [
        {"text": text, "labels": [name for name in ("blue", "red") if name in text]}
        for text in texts
    ]
    rows += [{"text": "red text", "labels": ["blue"]}, {"text": "blue text", "labels": []}]
    config = config_of(
        tmp_path,
        **{
            "data.label": "labels",
            "data.task": "multilabel",
            "train.steps": 40,
            "train.learning_rate": 0.01,
        },
    )
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = finetune(config, workdir=str(tmp_path / "run"))
    read = _read(tmp_path / "run")
    assert read.numbers == {
        name: f"{results[name]:.3f}" for name in ("f1_micro", "f1_macro", "accuracy", "loss")
    }
    model = read.tables["Accuracy and baselines"][1]
    assert model[1] == f"{results['accuracy']:.3f}"
    # Of 26 rows it can learn all but those that are labelled twice: 2 of "red", 2 of "blue".
    bigrams = read.tables["Accuracy and baselines"][2]
    assert bigrams[:2] == ["bag of bigrams, logistic regression", f"{24 / 26:.3f}"]
    macro, micro = read.tables["Scores of the classes"][-2:]
    assert (macro[3], micro[3]) == (f"{results['f1_macro']:.3f}", f"{results['f1_micro']:.3f}")
    assert "Confusion matrix" not in read.tables
    assert sum(int(row[1]) for row in read.tables["Calibration"][1:]) == 2 * len(rows)
    found = load(str(tmp_path / "run")).predict([row["text"] for row in rows])
    wrong = [
        row["text"]
        for row, one in zip(rows, found, strict=True)
        if set(row["labels"]) != set(one["labels"])
    ]
    assert sorted(read.quotes) == sorted(wrong)


def test_regression_has_its_numbers_and_largest_errors(tmp_path):
    run, results = finetuned(tmp_path, **{"data.label": "score", "data.regression": True})
    read = _read(run)
    names = ("pearson", "spearman", "mean_squared_error", "loss")
    assert list(read.numbers) == list(names)
    assert read.numbers["spearman"] == f"{results['spearman']:.3f}"
    longest = max(TEXTS, key=len)
    assert [quote[:4] for quote in read.quotes[:2]] == [longest[:4]] * 2
    assert "Accuracy and baselines" not in read.tables
    beaten = read.tables["Mean squared error and baselines"]
    mean = sum(number % 7 for number in range(60)) / 60
    constant = sum((mean - len(text)) ** 2 for text in TEXTS) / len(TEXTS)
    assert [row[0] for row in beaten[1:]] == [
        "this model",
        "bag of bigrams, ridge regression",
        "always the mean training label",
    ]
    assert beaten[1][1] == f"{results['mean_squared_error']:,.0f}"
    assert beaten[3][1] == f"{constant:,.0f}"
    assert 0.9 < float(beaten[2][1].replace(",", "")) / constant < 1.1, "no word of training"


@pytest.mark.parametrize(
    "fields", [{"eval.report": False}, {"data.validation": None, "data.holdout": 0.0}]
)
def test_there_may_be_no_page(tmp_path, capsys, fields):
    run, _ = finetuned(tmp_path, **fields)
    assert (run / "results.json").exists() and not (run / "report.html").exists()
    said = "no report is written" in capsys.readouterr().out
    assert said == ("eval.report" not in fields)


def test_several_runs_have_a_page_that_leads_to_theirs(tmp_path):
    runs = [
        {
            "run": f"rate-0.1-batch-8-seed-{seed}",
            "learning_rate": 0.1,
            "batch_size": 8,
            "seed": seed,
            "accuracy": 0.5 + seed / 10,
        }
        for seed in range(2)
    ]
    scores_of_runs = [{"precision": 0.25, "recall": 0.5, "f1": 0.125 * n} for n in (1, 2)]
    results = {
        "runs": runs,
        "best_run": runs[1]["run"],
        "accuracy": 0.55,
        "diverged": 0,
        "accuracy_deviation": 0.0707,
        "accuracy_interval": 0.6353,
        "to_beat": {"bag_of_bigrams": 0.52, "most_frequent": 0.4},
        **mean_class_scores(
            [
                {"classes": {"<a>": {**scores, "rows": 7}}, "macro": scores, "micro": scores}
                for scores in scores_of_runs
            ]
        ),
    }
    (tmp_path / runs[1]["run"]).mkdir()  # the other has no page, as those of readers
    (tmp_path / runs[1]["run"] / "report.html").write_text("<p>")
    write_runs_report(
        TASKS["classification"],
        Workdir(tmp_path),
        results,
        ["accuracy"],
        [run["run"] for run in runs],
    )
    read = _read(tmp_path)
    assert read.numbers == {"accuracy": "0.550 ± 0.635"}
    places = [given["href"] for name, given in read.elements if name == "a"]
    assert places == [f"{runs[1]['run']}/report.html"] * 2  # in the table, and for its errors
    assert read.tables["Mean and baselines"] == [
        ["model", "accuracy"],
        ["this model, mean over seeds", "0.550 ± 0.635"],
        ["bag of bigrams", "0.520"],
        ["always the most frequent class", "0.400"],
    ]
    assert read.tables["Mean scores of the classes"][1:] == [
        ["<a>", "0.250", "0.500", "0.188", "7"],
        ["macro average", "0.250", "0.500", "0.188", ""],
        ["micro average", "0.250", "0.500", "0.188", ""],
    ]
    assert read.tables["Runs"][1:] == [
        ["rate-0.1-batch-8-seed-0", "0.1", "8", "0", "0.500"],
        ["rate-0.1-batch-8-seed-1 · best", "0.1", "8", "1", "0.600"],
        ["standard deviation over seeds", "0.071"],
    ]


def test_runs_of_a_task_without_its_error_show_the_baselines_alone(tmp_path):
    run = {"run": "one", "learning_rate": 0.1, "batch_size": 8, "seed": 0, "pearson": 0.5}
    results = {
        "runs": [run],
        "best_run": "one",
        "pearson": 0.5,
        "diverged": 0,
        "to_beat": {"bag_of_bigrams": 2.5, "mean": 3.5},
    }
    write_runs_report(TASKS["classification"], Workdir(tmp_path), results, ["pearson"], ["one"])
    assert _read(tmp_path).tables["Mean and baselines"][1:] == [
        ["bag of bigrams", "2.500"],
        ["always the mean training label", "3.500"],
    ]


def test_of_many_classes_the_most_confused_are_shown(tmp_path):
    labels = tuple(f"class {number:03d}" for number in range(150))
    config = config_of(tmp_path, ("a text",), labels)
    config.data.train = config.data.validation  # each class once
    finetune(config, workdir=str(tmp_path / "run"))
    read = _read(tmp_path / "run")
    assert len(read.tables["Confusion matrix"]) == 13
    assert len(read.tables["Scores of the classes"]) == 153
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "The table has the 12 of 150 classes with the most errors" in page
    assert "150 validation rows are also training rows" in page
