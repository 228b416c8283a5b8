"""Question answering with the commands."""

import json

import pytest

from tests.support import squad_files
from tests.support.started_commands import config_flags, results, run

pytestmark = pytest.mark.slow


def test_the_commands_finetune_answer_and_evaluate(tmp_path):
    path = squad_files.write(tmp_path / "train.json", *squad_files.made_up(12, impossible=True))
    workdir = tmp_path / "run"
    out, _ = run(
        "finetune",
        "--config=squad",
        f"--workdir={workdir}",
        *config_flags(
            **{
                "data.train": path,
                "data.length": 32,
                "data.max_question": 8,
                "data.vocab_size": 300,
                "train.steps": 3,
                "train.batch_size": 8,
            }
        ),
    )
    assert "validation questions" in out
    run(
        "finetune.predict",
        f"--workdir={workdir}",
        f"--input={path}",
        f"--output={tmp_path / 'answers.json'}",
    )
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert len(answers) == 36
    out, _ = run(
        "finetune.predict",
        f"--workdir={workdir}",
        "--text=Who sells eggs?",
        "--text_pair=Ada sells eggs.",
    )
    assert list(json.loads(out)) == ["id", "answer", "score", "start", "end", "no_answer"]
    out, _ = run("finetune.evaluate", f"--workdir={workdir}", f"--data={path}")
    found = dict(line.split() for line in out.splitlines())
    assert found["examples"] == "36" and set(results(workdir)) > {"f1", "exact", "threshold"}
    assert {"f1", "exact", "has_answer_f1", "no_answer_f1", "best_f1"} <= set(found)
    _, err = run("finetune.predict", f"--workdir={workdir}", "--text=Who?", status=2)
    assert err.startswith("error: Each question must have a passage")
