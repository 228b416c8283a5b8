"""A finetuned reader: its results, report and answers, and runs that start from its workdir."""

import json
import shutil

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import finetune, load
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file, predict_texts
from keras_attn.tasks.span_qa import answerer
from keras_attn.tasks.span_qa.answers import Answer, Span
from keras_attn.tasks.span_qa.examples import Questions, read_questions
from keras_attn.tasks.span_qa.metrics import reading_metrics
from keras_attn.tasks.span_qa.report import _errors, nearest_sentence
from tests.support.small_readers import reader_config
from tests.support.small_reports import Reader

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The workdir of a reader of 2.0 that knows its training data, and its results."""
    folder = tmp_path_factory.mktemp("reader")
    config = reader_config(
        folder,
        impossible=True,
        **{
            "data.validation": str(folder / "train.json"),
            "train.steps": 90,
            "eval.every": 45,
            "eval.metric": "f1",
        },
    )
    results = finetune(config, workdir=str(folder / "run"))
    return folder / "run", results, config


def test_a_small_model_learns_its_data_by_heart(reader):
    workdir, results, _ = reader
    assert results["f1"] > 0.9 and results["exact"] > 0.9
    assert results["has_answer_f1"] > 0.8 and results["no_answer_f1"] > 0.8
    assert results["f1"] == results["best_f1"]
    saved = json.loads((workdir / "results.json").read_text())
    assert saved["threshold"] == results["threshold"] >= results["best_f1_threshold"]
    assert json.loads((workdir / "reading.json").read_text()) == {"threshold": results["threshold"]}
    assert load(str(workdir)).threshold == results["threshold"]
    assert not (workdir / "labels.json").exists()


def test_the_same_call_resumes_and_has_the_same_results(reader):
    workdir, results, config = reader
    again = finetune(config, workdir=str(workdir))
    names = ("f1", "exact", "best_f1_threshold", "weights_sha256", "steps")
    assert {name: again[name] for name in names} == {name: results[name] for name in names}


def test_evaluating_is_by_the_answers_that_are_given(reader):
    workdir, results, config = reader
    found = evaluate(str(workdir), config.data.train)
    assert (found.pop("examples"), found.pop("misplaced")) == (36, 0)
    questions = read_questions(config.data.train)
    answers = load(str(workdir)).answer(questions.questions, questions.texts, batch_size=5)
    wanted = reading_metrics(questions.answers, [one["answer"] for one in answers], np.zeros(36))
    for name in ("f1", "exact", "has_answer_f1", "no_answer_exact"):
        assert found[name] == pytest.approx(wanted[name])
        assert found[name] == pytest.approx(results[name])


def test_its_report_has_the_same_numbers(reader):
    workdir, results, config = reader
    read = Reader((workdir / "report.html").read_text(encoding="utf-8"))
    assert read.numbers == {name: f"{results[name]:.3f}" for name in ("f1", "exact")}
    questions = read_questions(config.data.train)
    _, model, nearest, none = read.tables["Scores and baselines"]
    assert model[1:] == list(read.numbers.values())
    # Every sentence contains the person and the place that the question asks for.
    sentences = [
        nearest_sentence(*pair) for pair in zip(questions.questions, questions.texts, strict=True)
    ]
    wanted = reading_metrics(questions.answers, sentences, np.zeros(36))
    assert nearest[1:] == [f"{wanted['f1']:.3f}", f"{wanted['exact']:.3f}"]
    assert none == ["always no answer", "0.333", "0.333"]
    answers = load(str(workdir)).answer(questions.questions, questions.texts)
    _, *kinds = read.tables["Scores by question word"]
    for name, own in (("where", "Where"), ("who", "Who")):
        chosen = [row for row, text in enumerate(questions.questions) if text.startswith(own)]
        (line,) = [cells for cells in kinds if cells[0] == name]
        given = [answers[row]["answer"] for row in chosen]
        found = reading_metrics(
            [questions.answers[row] for row in chosen], given, np.zeros(len(chosen))
        )
        assert line[1:] == [
            str(len(chosen)),
            f"{np.mean([bool(one) for one in given]):.1%}",
            f"{found['f1']:.3f}",
            f"{found['exact']:.3f}",
        ]
    wrong = {
        questions.questions[row]
        for row, one in enumerate(answers)
        if one["answer"] not in (questions.answers[row] or [""])
    }
    assert set(read.quotes[::2]) == wrong


def test_the_worst_answers_come_first():
    count = 25
    rows = Questions(
        [f"id {n}" for n in range(count)],
        [f"question {n}?" for n in range(count)],
        ["a passage of words"] * count,
        [["words"]] * count,
        [(13, 18)] * count,
    )
    # Of those that are wrong the last ones have the least of "no answer".
    answers = [Answer([Span("passage", 1.0, 2, 9)], 20.0 - 2 * n) for n in range(count)]
    sure = np.array([-answer.no_answer for answer in answers])
    page = Reader(_errors(rows, answers, ["passage"] * count, np.zeros(count), sure))
    assert page.quotes[::2] == [f"question {n}?" for n in range(count)][:4:-1]
    assert page.quotes[1] == "a passage of words"


def test_the_nearest_sentence_has_most_words_of_the_question():
    passage = "Ada sells cups. The boats of Ada are sold in Bonn! Bert sells boats."
    assert nearest_sentence("Where are Ada's boats sold?", passage) == (
        "The boats of Ada are sold in Bonn!"
    )
    assert nearest_sentence("Who?", passage) == "Ada sells cups."
    assert nearest_sentence("Who?", " ") == ""


def test_answers_are_parts_of_the_passage(reader):
    model = load(str(reader[0]))
    passage = (
        "Ada sells boats in Ło\u0301dz\u0301.\tBert sells cups in \u0130zmir.\u200b  "
        "Cora sells eggs in Ulm. "
    ) * 3
    found = model.answer("Who sells cups?", passage, top=5)
    assert len({span["text"] for span in found["spans"]}) == 5
    scores = [span["score"] for span in found["spans"]]
    assert scores == sorted(scores, reverse=True) and found["score"] == scores[0]
    for span in found["spans"]:
        assert passage[span["start"] : span["end"]] == span["text"] == span["text"].strip()
    model.threshold = None
    sure = model.answer("Who sells cups?", passage)
    assert sure["answer"] == found["spans"][0]["text"] and "spans" not in sure
    model.threshold = -1e9
    none = model.answer("Who sells cups?", passage)
    assert (none["answer"], none["start"], none["end"]) == ("", None, None)
    assert none["no_answer"] == pytest.approx(sure["no_answer"], abs=1e-5)


def test_answers_depend_neither_on_their_batch_nor_on_padding(reader, monkeypatch):
    model = load(str(reader[0]))
    questions = read_questions(reader[2].data.train)
    columns = questions.questions[:9] + [""], questions.texts[:8] + ["", "A. " * 70]
    together = model.answer(*columns)
    for size, most in ((1, 1024), (3, 4)):  # more questions than are cut into windows together
        monkeypatch.setattr(answerer, "MAX_QUESTIONS", most)
        for one, other in zip(together, model.answer(*columns, batch_size=size), strict=True):
            assert one["answer"] == other["answer"]
            assert one["score"] == pytest.approx(other["score"], abs=1e-4)
            assert one["no_answer"] == pytest.approx(other["no_answer"], abs=1e-4)
    assert together[8]["answer"] == "" and model.answer([], []) == []


def test_predictions_of_a_file_are_in_squads_format_or_json_lines(reader, tmp_path, capsys):
    workdir, _, config = reader
    questions = read_questions(config.data.train)
    answers = load(str(workdir)).answer(questions.questions, questions.texts)
    predict_file(str(workdir), config.data.train, str(tmp_path / "out.json"))
    assert json.loads((tmp_path / "out.json").read_text()) == {
        identity: one["answer"] for identity, one in zip(questions.ids, answers, strict=True)
    }
    assert "36 questions answered" in capsys.readouterr().err
    predict_file(str(workdir), config.data.train, str(tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [
        {"id": identity, **one} for identity, one in zip(questions.ids, answers, strict=True)
    ]
    assert list(lines[0]) == ["id", "answer", "score", "start", "end", "no_answer"]
    predict_texts(str(workdir), [questions.questions[0]], [questions.texts[0]])
    line = json.loads(capsys.readouterr().out)
    assert line["answer"] == answers[0]["answer"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "out.csv"}, "ends in .json, .jsonl, or -"),
        ({"format": "csv"}, "format=csv"),
        ({"text": "question"}, "text=question"),
        ({"source": "nowhere.json"}, "does not exist"),
    ],
)
def test_what_predicting_cannot_do_is_an_error(reader, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        predict_file(str(reader[0]), **{"source": reader[2].data.train, **options})
    assert not list(tmp_path.iterdir())


def test_wrong_arguments_of_answer_are_named(reader):
    model = load(str(reader[0]))
    with pytest.raises(UserError, match="2 questions, 1 passage$"):
        model.answer(["a", "b"], ["c"])
    with pytest.raises(UserError, match="list of strings"):
        model.answer(["a"], "b")
    with pytest.raises(UserError, match="0 passages"):
        predict_texts(str(reader[0]), ["a"])
    with pytest.raises(UserError, match="top=0"):
        model.answer("a", "b", top=0)
    with pytest.raises(UserError, match="finetune.export` does not support models for span_qa"):
        export(str(reader[0]), "nowhere")
    with pytest.raises(UserError, match="label=x"):
        evaluate(str(reader[0]), reader[2].data.train, label="x")


def test_the_threshold_is_that_of_the_evaluation_whose_weights_are_read(reader, tmp_path):
    shutil.copytree(reader[0], tmp_path / "run")  # as a kill before the end leaves it
    (tmp_path / "run/reading.json").write_text('{"threshold": 0.0}')
    assert load(str(tmp_path / "run")).threshold == reader[1]["threshold"] != 0.0


@pytest.mark.parametrize("content", [None, "[]", "{}", '{"threshold": "high"}'])
def test_a_workdir_without_its_threshold_is_refused(reader, tmp_path, content):
    shutil.copytree(reader[0], tmp_path / "run")
    (tmp_path / "run/reading.json").unlink()
    if content:
        (tmp_path / "run/reading.json").write_text(content)
    with pytest.raises(UserError, match="reading.json must"):
        load(str(tmp_path / "run"))


def test_the_model_of_a_reader_reloads_by_itself(reader):
    model = keras.saving.load_model(reader[0] / "model.keras")
    own = load(str(reader[0])).model
    assert type(model) is keras_attn.models.BertQuestionAnswerer
    for one, other in zip(model.variables, own.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_resumed_reader_needs_its_first_weights_no_more(reader, tmp_path):
    shutil.copytree(reader[0], tmp_path / "first")
    for steps in (2, 4):
        finetune(
            reader_config(tmp_path, **{"train.steps": steps}),
            workdir=str(tmp_path / "run"),
            pretrained=str(tmp_path / "first"),
        )
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.slow
def test_a_reader_starts_from_a_reader_or_from_any_bert(reader, tmp_path):
    head = {}
    for name, start in (("again", str(reader[0])), ("anew", None)):
        workdir = str(tmp_path / name)
        finetune(
            reader_config(tmp_path, **{"train.learning_rate": 1e-9}),
            workdir=workdir,
            pretrained=start,
        )
        head[name] = dict(keras_attn.convert.read(workdir).weights)["span_dense/kernel"]
    own = dict(keras_attn.convert.read(str(reader[0])).weights)["span_dense/kernel"]
    np.testing.assert_allclose(head["again"], own, atol=1e-6)
    assert np.abs(head["anew"] - own).max() > 1e-2
    assert load(str(tmp_path / "anew")).threshold is None  # its data are of 1.1
    keras_attn.convert(str(reader[0]), str(tmp_path / "copy"), "workdir")
    wanted = load(str(reader[0]))
    assert load(str(tmp_path / "copy")).answer("Who?", "Ada.") == wanted.answer("Who?", "Ada.")


def test_a_classifier_and_a_reader_do_not_share_a_workdir(reader, tmp_path):
    config = finetuning_defaults()
    config.data.update({"train": "x.csv", "text": "a", "label": "b"})
    with pytest.raises(UserError, match="contain a run of finetuning.*a run of reading"):
        finetune(config, workdir=str(reader[0]))
