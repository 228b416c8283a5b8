"""Any number of labels, long texts in windows, pairs: trained, predicted, evaluated, exported."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import sklearn.metrics

from keras_attn import finetune, load
from keras_attn.convert import read
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file
from keras_attn.tasks.classification.other_libraries import rescale_regression
from keras_attn.tasks.finetuning.seed_statistics import metrics_among

pytestmark = pytest.mark.runs

LABELS = ("blue", "green", "red")
RUNS = {
    "multilabel": {
        "data.task": "multilabel",
        "data.label": "labels",
        "data.windows": 3,
        "train.steps": 200,
        "model.pooling": "mean",
        "train.learning_rate": 0.003,
    },
    "single_label": {"data.label": "first", "data.windows": 0, "train.class_weights": True},
    "pairs": {
        "data.label": "first",
        "data.text_pair": "other",
        "data.task": "single_label",
        "model.pooling": "mean",
        "data.pack": 3,
    },
    "regression": {
        "data.task": "regression",
        "data.label": "score",
        "train.steps": 100,
        "model.pooling": "mean",
        "train.learning_rate": 0.005,
    },
}
TEXTS = [
    "red",
    "",
    "a blue and green thing " * 9,
    "\tRÉD  \x00 grün 🙂",
    "ﬁne red, blue; green!",
    "x" * 300,
    "rot " * 40,
]


def _rows(count, seed):
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        labels = [name for name in LABELS if random.random() < 0.4]
        words = random.permutation([*labels, *["thing"] * random.integers(1, 30)])
        rows.append(
            {
                "text": " ".join(words),
                "other": " ".join(words[::-1][:5]),
                "labels": labels,
                "first": (labels or ["none"])[0],
                "score": len(labels) / 2,
            }
        )
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    for name, count in (("train", 90), ("valid", 41)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in _rows(count, seed=count))
        )
    for name, given in RUNS.items():
        config = finetuning_defaults()
        config.update_from_flattened_dict(
            {
                "data.train": str(folder / "train.jsonl"),
                "data.text": "text",
                "data.length": 12,
                "data.validation": str(folder / "valid.jsonl"),
                "data.vocab_size": 100,
                "train.steps": 80,
                "train.batch_size": 8,
                "train.learning_rate": 0.01,
                "eval.report": False,
                **given,
            }
        )
        finetune(config, workdir=str(folder / name))
    return folder


def _valid(folder):
    return [json.loads(line) for line in (folder / "valid.jsonl").open()]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_evaluation_gives_the_numbers_of_the_run(folder, run, batch_size):
    results = json.loads((folder / run / "results.json").read_text())
    found = evaluate(str(folder / run), str(folder / "valid.jsonl"), batch_size)
    assert found.pop("examples") == 41 and found.pop("skipped") == 0
    if batch_size != 64:  # another rounding may turn the ranks of values that are all but equal
        found.pop("spearman", None)
    assert found.get("classes") == results.get("classes")
    for name, value in metrics_among(found).items():
        assert value == pytest.approx(results[name], abs=1e-6), name


def test_metrics_of_several_labels_are_those_of_scikit_learn(folder):
    rows = _valid(folder)
    predictions = load(str(folder / "multilabel")).predict([row["text"] for row in rows])
    labels, chosen = (
        np.array([[name in found for name in LABELS] for found in column])
        for column in ([row["labels"] for row in rows], [row["labels"] for row in predictions])
    )
    shares = np.array([[row["probabilities"][name] for name in LABELS] for row in predictions])
    np.testing.assert_array_equal(chosen, shares > 0.5)
    results = json.loads((folder / "multilabel" / "results.json").read_text())
    f1 = {
        kind: sklearn.metrics.f1_score(labels, chosen, average=kind, zero_division=0)
        for kind in ("micro", "macro")
    }
    assert results["f1_micro"] == pytest.approx(f1["micro"]) and f1["micro"] > 0.8
    assert results["f1_macro"] == pytest.approx(f1["macro"])
    assert results["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(labels, chosen))
    losses = [
        sklearn.metrics.log_loss(labels[:, c], shares[:, c], labels=[0, 1])
        for c in range(len(LABELS))
    ]
    assert results["loss"] == pytest.approx(np.mean(losses), abs=1e-6)


def test_the_losses_of_a_regression_are_in_one_unit(folder):
    run = folder / "regression"
    deviation = json.loads((run / "config.json").read_text())["heads"]["label_deviation"]
    results = json.loads((run / "results.json").read_text())
    rows = _valid(folder)
    values = load(str(run)).probabilities([row["text"] for row in rows])[:, 0]
    errors = np.mean((values - [row["score"] for row in rows]) ** 2)
    assert abs(deviation - 1) > 0.3
    assert results["mean_squared_error"] == pytest.approx(errors, abs=1e-6)
    # That of training is the squared error over the variance of the labels: see `Classifier`.
    assert results["loss"] == pytest.approx(errors / deviation**2, abs=1e-6)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["validation_loss"] == pytest.approx(results["loss"], abs=1e-6)


@pytest.mark.parametrize("run, overlap", [("multilabel", 3), ("single_label", 0)])
def test_a_long_text_has_the_mean_of_its_windows(folder, run, overlap):
    predictor = load(str(folder / run))
    words = ["thing"] * 7 + ["red"] + ["thing"] * 11 + ["blue", "green"] + ["thing"] * 6
    step, ends = 10 - overlap, []  # 12 tokens with [CLS] and [SEP]
    while not ends or ends[-1] < len(words):
        ends.append(min(10 + step * len(ends), len(words)))
    windows = [" ".join(words[end - 10 : end]) for end in ends]
    assert len(windows) > 2
    expected = predictor.probabilities(windows).mean(axis=0)
    found = predictor.probabilities(["red", " ".join(words), ""])
    np.testing.assert_allclose(found[1], expected, atol=1e-6)
    np.testing.assert_allclose(found[::2], predictor.probabilities(["red", ""]), atol=1e-6)


def test_several_labels_are_written_with_their_separator(folder):
    (folder / "in.txt").write_text("red and blue\nthing\n")
    predict_file(str(folder / "multilabel"), str(folder / "in.txt"), str(folder / "out.tsv"))
    head, first, second = (folder / "out.tsv").read_text().splitlines()
    assert head.split("\t") == ["label", *LABELS]
    assert first.split("\t")[0] == "blue,red" and second.split("\t")[0] == ""
    predict_file(str(folder / "multilabel"), str(folder / "in.txt"), str(folder / "out.jsonl"))
    rows = [json.loads(line) for line in (folder / "out.jsonl").open()]
    assert [row["labels"] for row in rows] == [["blue", "red"], []]


def test_labels_with_separators_are_those_of_a_list(folder, tmp_path):
    lines = [
        "text\tlabels",
        *(f"{row['text']}\t{' | '.join(row['labels'])}" for row in _valid(folder)),
    ]
    (tmp_path / "valid.tsv").write_text("\n".join(lines) + "\n")
    predictor_config = folder / "multilabel" / "config.json"
    saved = predictor_config.read_text()
    changed = json.loads(saved)
    changed["config"]["data"]["label_separator"] = "|"
    try:
        predictor_config.write_text(json.dumps(changed))
        found = evaluate(str(folder / "multilabel"), str(tmp_path / "valid.tsv"))
    finally:
        predictor_config.write_text(saved)
    assert found == evaluate(str(folder / "multilabel"), str(folder / "valid.jsonl"))


PROGRAM = """
import json, sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serving_default"]
assert not [name for name in sys.modules if name.startswith("keras_attn")]
for given in json.load(sys.stdin):
    found = serve(**{name: tf.constant(texts, tf.string) for name, texts in given.items()})
    print(json.dumps({name: value.numpy().tolist() for name, value in found.items()},
                     default=bytes.decode))
"""


@pytest.mark.parametrize(
    "run",
    [
        "multilabel",
        "pairs",
        *(pytest.param(run, marks=pytest.mark.slow) for run in ("single_label", "regression")),
    ],
)
def test_an_export_predicts_the_same_without_this_package(folder, run):
    export(str(folder / run), str(folder / f"{run}-served" / "1"))
    given = {"text": TEXTS}
    if run == "pairs":
        given["text_pair"] = ["blue " * n for n in range(len(TEXTS))]
    several = [given, {name: column[:1] for name, column in given.items()}]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / f"{run}-served" / "1")],
        input=json.dumps(several),
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    predictor = load(str(folder / run))
    for texts, line in zip(several, done.stdout.splitlines()[-2:], strict=True):
        found, expected = json.loads(line), predictor.predict(*texts.values())
        if run == "regression":
            values = [row["value"] for row in expected]
            np.testing.assert_allclose(found["value"], values, atol=1e-6)
            continue
        shares = [list(row["probabilities"].values()) for row in expected]
        np.testing.assert_allclose(found["probabilities"], shares, atol=1e-6)
        if run == "multilabel":
            assert found["labels"] == [",".join(row["labels"]) for row in expected]
        else:
            assert found["label"] == [row["label"] for row in expected]
        names = json.loads((folder / f"{run}-served/1/assets.extra/labels.json").read_text())
        assert names == predictor.labels


def test_an_export_takes_what_the_model_was_trained_on(folder):
    with pytest.raises(UserError, match="This model takes pairs"):
        export(str(folder / "pairs"), str(folder / "single-served"), pairs=False)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data.task": "multilable"}, "Did you mean multilabel"),
        ({"data.task": "multilabel", "data.regression": True}, "data.regression=True contradicts"),
        (
            {"data.task": "multilabel", "data.label_separator": ""},
            "label_separator must not be empty",
        ),
        ({"data.task": "multilabel", "data.label_separator": "\t"}, r"Received: .*'\\t'"),
        ({"data.task": "multilabel", "train.class_weights": True}, "requires single labels"),
        # Said before anything is read.
        ({"data.windows": 10, "data.train": "nowhere.csv"}, r"data.windows must be in \[0, 10\)"),
        ({"data.windows": -1}, "data.windows must be at least 0"),
        ({"data.windows": 2, "data.text_pair": "other"}, "does not support text pairs"),
    ],
)
def test_invalid_fields_are_errors(folder, tmp_path, fields, message):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.jsonl"),
            "data.text": "text",
            "data.label": "first",
            "data.length": 12,
            "data.vocab_size": 100,
            "train.steps": 1,
            **fields,
        }
    )
    with pytest.raises(UserError, match=message):
        finetune(config, workdir=str(tmp_path / "run"))


def test_no_texts_have_no_predictions(folder):
    for run in RUNS:
        assert load(str(folder / run)).predict([]) == []


def test_predictions_are_no_single_json_object(folder, tmp_path):
    with pytest.raises(UserError, match="ends in .tsv, .csv, .jsonl, or -"):
        predict_file(
            str(folder / "single_label"), str(folder / "valid.jsonl"), str(tmp_path / "out.json")
        )
    assert not list(tmp_path.iterdir())


def test_small_numbers_keep_their_digits(folder, tmp_path):
    model = load(str(folder / "regression"))
    path = str(tmp_path / "out.tsv")
    predict_file(str(folder / "regression"), str(folder / "valid.jsonl"), path)
    lines = (tmp_path / "out.tsv").read_text().splitlines()[1:]
    texts = [row["text"] for row in _valid(folder)]
    wanted = [row["value"] for row in model.predict(texts)]
    np.testing.assert_allclose([float(line) for line in lines], wanted, rtol=1e-5)


def test_skipped_rows_are_reported_with_their_location(folder, tmp_path, capsys):
    (tmp_path / "rows.csv").write_text('text\nred\n"blue\n')
    predict_file(
        str(folder / "single_label"),
        str(tmp_path / "rows.csv"),
        str(tmp_path / "out.tsv"),
        on_bad_text="skip",
    )
    said = capsys.readouterr().err
    assert "rows.csv, line 3: CSV must be well-formed" in said
    assert "1 row predicted, 1 skipped (1 csv)" in said


@pytest.mark.parametrize("run", [run for run in RUNS if run != "pairs"])
def test_where_rows_may_be_missing_each_row_has_its_location(folder, tmp_path, run):
    texts = ["red", "red and blue", "green"]
    first = f'"{texts[0]}"\n\n"unclosed\n{texts[1]}\n'
    for name, rows in {"first": first, "other": texts[2]}.items():
        (tmp_path / f"{name}.csv").write_text(f"text\n{rows}")
    files = f"{tmp_path}/first.csv,{tmp_path}/other.csv"
    wanted = load(str(folder / run)).predict(texts)
    places = [("first.csv", 2), ("first.csv", 5), ("other.csv", 2)]
    for ending in ("jsonl", "csv"):
        path = tmp_path / f"out.{ending}"
        predict_file(str(folder / run), files, str(path), on_bad_text="skip")
        with path.open(newline="") as file:
            rows = list(map(json.loads, file)) if ending == "jsonl" else list(csv.DictReader(file))
        assert [(row.pop("file"), int(row.pop("line"))) for row in rows] == [
            (str(tmp_path / name), line) for name, line in places
        ]
        assert [len(row) for row in rows] == [len(rows[0])] * 3
        if ending == "jsonl":
            assert rows == wanted


@pytest.mark.parametrize(
    "scale, offset", [pytest.param(4.0, 88.0, marks=pytest.mark.slow), (3e4, 1e6)]
)
def test_numbers_of_any_size_are_learnt(folder, tmp_path, scale, offset):
    for name in ("train", "valid"):
        rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(
                json.dumps({**row, "score": offset + scale * row["score"]}) + "\n" for row in rows
            )
        )
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(tmp_path / "train.jsonl"),
            "data.text": "text",
            "data.length": 12,
            "data.validation": str(tmp_path / "valid.jsonl"),
            "data.vocab_size": 100,
            "train.batch_size": 8,
            "eval.report": False,
            **RUNS["regression"],
        }
    )
    found = finetune(config, workdir=str(tmp_path / "run"))
    near = json.loads((folder / "regression" / "results.json").read_text())
    # The same run in other units, but for what 100 steps make of rounding.
    assert found["pearson"] == pytest.approx(near["pearson"], abs=0.03)
    assert near["pearson"] > 0.7
    model, plain = load(str(tmp_path / "run")), load(str(folder / "regression"))
    values = [np.array([row["value"] for row in one.predict(TEXTS)]) for one in (model, plain)]
    np.testing.assert_allclose((values[0] - offset) / scale, values[1], atol=0.1)
    # The head for other libraries predicts the same without the scale.
    stored = rescale_regression(read(str(tmp_path / "run")))
    assert "label_mean" not in stored.heads
    head = model.model.logits_dense
    for name in ("kernel", "bias"):
        getattr(head, name).assign(stored.weights[f"logits_dense/{name}"])
    model.model.label_mean, model.model.label_deviation = 0.0, 1.0
    again = load(str(tmp_path / "run"))
    hidden = np.random.default_rng(0).normal(size=(5, head.kernel.shape[0])).astype("float32")
    wanted = (
        np.asarray(again.model.logits_dense(hidden)) * again.model.label_deviation
        + again.model.label_mean
    )
    np.testing.assert_allclose(np.asarray(head(hidden)), wanted, rtol=1e-5)


def test_a_resumed_regression_keeps_its_units(folder, tmp_path):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.jsonl"),
            "data.text": "text",
            "data.length": 12,
            "data.limit": 20,
            "train.batch_size": 8,
            "eval.report": False,
            **RUNS["regression"],
            "train.steps": 1,
        }
    )
    finetune(config, workdir=str(tmp_path / "run"), pretrained=str(folder / "regression"))
    known, kept = (
        json.loads((path / "config.json").read_text())["heads"]
        for path in (folder / "regression", tmp_path / "run")
    )
    assert known["label_deviation"] != 1.0
    assert {name: kept[name] for name in ("label_mean", "label_deviation")} == {
        name: known[name] for name in ("label_mean", "label_deviation")
    }
