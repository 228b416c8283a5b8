"""Runs of question answering: splits, fields, seeds, devices and errors."""

import json

import pytest

from keras_attn import finetune, load
from keras_attn.errors import UserError
from keras_attn.inference.evaluate import evaluate
from keras_attn.tasks.span_qa.examples import read_questions
from tests.support import squad_files
from tests.support.small_readers import reader_config

pytestmark = pytest.mark.runs


@pytest.mark.slow
def test_a_dry_run_leaves_nothing(tmp_path):
    config = reader_config(tmp_path, impossible=True)
    found = finetune(config, workdir=str(tmp_path / "run"), dry_run=True)
    assert found["steps"] == 2 and not (tmp_path / "run").exists()


def test_without_validation_passages_are_held_out_and_bad_answers_counted(tmp_path, capsys):
    config = reader_config(tmp_path, **{"data.holdout": 0.25, "data.limit": 10})
    found = json.loads((tmp_path / "train.json").read_text())
    found["data"][3]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    (tmp_path / "train.json").write_text(json.dumps(found))
    with pytest.raises(UserError, match="article 4, paragraph 1, question 3-who"):
        finetune(config, workdir=str(tmp_path / "run"))
    config.data.on_bad_text = "skip"
    results = finetune(config, workdir=str(tmp_path / "run"))
    said = capsys.readouterr().out
    assert "1 answer is not at answer_start" in said
    assert "held out for validation: 25 % of the questions" in said
    assert "10 training questions, 0 without answer, on " in said
    assert "6 validation questions, 0 without answer, on 3 passages" in said
    assert said.count("tokens per passage: median") == 2
    assert {"f1", "exact", "loss"} <= set(results) and "best_f1" not in results


def test_cut_questions_and_fewer_windows_than_a_batch_are_reported(tmp_path, capsys):
    for size in (24, 25):
        finetune(
            reader_config(
                tmp_path,
                **{
                    "data.max_question": 3,
                    "data.holdout": 0.0,
                    "train.steps": 1,
                    "train.batch_size": size,
                },
            ),
            workdir=str(tmp_path / f"{size}"),
        )
        said = capsys.readouterr().out
        assert ("fewer windows than train.batch_size=25" in said) == (size == 25)
        assert "24 windows of up to 32 tokens · 24 questions truncated to 3 tokens" in said


def test_questions_without_any_answer_to_learn_are_errors(tmp_path):
    config = reader_config(tmp_path, **{"data.on_bad_text": "skip"})
    found = json.loads((tmp_path / "train.json").read_text())
    for article in found["data"]:
        article["paragraphs"][0]["context"] = "x " + article["paragraphs"][0]["context"]
    (tmp_path / "train.json").write_text(json.dumps(found))
    with pytest.raises(UserError, match="must be impossible or have an answer at"):
        finetune(config, workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_seeds_and_search_repeat_it(tmp_path):
    results = finetune(
        reader_config(
            tmp_path, **{"train.seeds": 2, "data.holdout": 0.3, "search.batch_sizes": "6"}
        ),
        workdir=str(tmp_path / "run"),
    )
    assert {"f1", "exact", "loss", "f1_deviation", "exact_interval"} <= set(results)
    assert [run["seed"] for run in results["runs"]] == [0, 1]
    assert results["best_run"] == max(results["runs"], key=lambda run: run["f1"])["run"]
    assert set(load(str(tmp_path / "run")).answer("Who?", "Ada.")) == {
        "answer",
        "score",
        "start",
        "end",
        "no_answer",
    }


@pytest.mark.slow
def test_devices_and_xla_change_nothing_but_rounding(tmp_path):
    config = reader_config(
        tmp_path,
        impossible=True,
        **{
            "data.validation": str(tmp_path / "train.json"),
            "train.steps": 6,
            "train.accumulate": 2,
        },
    )
    wanted = finetune(config, workdir=str(tmp_path / "one"), strategy="one_device")
    for name, fields in {"mirrored": {}, "xla": {"jit": True}}.items():
        config.train.update(fields)
        found = finetune(
            config,
            workdir=str(tmp_path / name),
            strategy="mirrored" if name == "mirrored" else "one_device",
        )
        assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
        assert found["best_f1"] == pytest.approx(wanted["best_f1"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data.text": "question"}, "data.text=question"),
        ({"data.pack": 2}, "data.pack=2"),
        ({"data.encoding": "latin-1"}, "in UTF-8. Convert them. Received: data.encoding=latin-1"),
        ({"data.length": 11}, "data.length=11, data.max_question=8"),
        ({"data.stride": 0}, "data.stride must be above 0"),
        ({"data.train": None}, "data.train=None"),
        ({"eval.metric": "accuracy"}, "f1, exact, loss"),
        ({"train.class_weights": True}, "requires single labels"),
        ({"data.task": "reading_comprehensoin"}, "Did you mean reading_comprehension"),
    ],
)
def test_invalid_fields_are_errors_before_any_work(tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        config = reader_config(tmp_path)
        for name, value in fields.items():
            group, field = name.split(".")
            config[group][field] = value
        finetune(config, workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_validation_is_by_the_threshold_that_the_workdir_keeps(tmp_path):
    """If all validation questions have answers, the threshold stays 0, the default of BERT."""
    path = squad_files.write(tmp_path / "answerable.json", *squad_files.made_up(4))
    config = reader_config(tmp_path, impossible=True, **{"data.validation": path, "train.steps": 8})
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert "threshold" not in results
    found = evaluate(str(tmp_path / "run"), path)
    assert [found[name] for name in ("f1", "exact")] == [results[name] for name in ("f1", "exact")]
    questions = read_questions(path)
    blank = [
        row["answer"] == ""
        for row in load(str(tmp_path / "run")).answer(questions.questions, questions.texts)
    ]
    assert any(blank), "it must make a difference"
