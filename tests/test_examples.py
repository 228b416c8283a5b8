"""Every example in examples/attention is short, names its command and compares models."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "attention"
CAPTIONS = ROOT / "examples" / "captions.py"
EXAMPLES = {
    path.stem: path
    for path in FOLDER.glob("*.py")
    if 'if __name__ == "__main__"' in path.read_text()
}


@pytest.mark.slow
@pytest.mark.parametrize("path", [*sorted(EXAMPLES.values()), CAPTIONS], ids=lambda path: path.stem)
def test_an_example_compares_models(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [path.stem, "--seeds=1", "--steps=3"])
    monkeypatch.syspath_prepend(path.parent)
    runpy.run_path(str(path), run_name="__main__")
    head, *lines = capsys.readouterr().out.splitlines()
    results = [re.search(r"  (\S+) \((\S+) to (\S+)\)", line) for line in lines]
    assert "of 1" in head and all(results[:2]) and len(results) >= 2
    for mean, low, high in (result.groups() for result in results if result):
        assert mean == low == high and np.isfinite(float(mean))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_short_and_names_its_command(name):
    text = EXAMPLES[name].read_text()
    assert len(text.splitlines()) <= 80
    assert f"    python examples/attention/{name}.py" in text


@pytest.mark.runs
def test_the_demo_of_a_released_model_prints_each_task_beside_its_baselines(
    tmp_path, monkeypatch, capsys
):
    rows = [f"{word} film {n},{word}\n" for word in ("good", "bad") for n in range(20)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(rows))
    sentences = [f"the\tO\ncat\tB-X\n{n}\tO\n\n" for n in range(40)]
    (tmp_path / "words.conll").write_text("".join(sentences))
    arguments = {
        "train": tmp_path / "rows.csv",
        "tagging_train": tmp_path / "words.conll",
        "pretrained": ROOT / "tests/golden/hugging_face/encoder",
        "workdir": tmp_path / "runs",
        "limit": 16,
        "seeds": 1,
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    monkeypatch.setattr(sys, "argv", ["demo_real", *flags])
    runpy.run_path(str(ROOT / "examples" / "demo_real.py"), run_name="__main__")
    table = capsys.readouterr().out.rpartition("rows.csv, 16 rows")[2]
    names = re.findall(r"^(\S.*?)  .*\d$", table, re.MULTILINE)
    assert names == [
        *("MiniLM, finetuned", "bag of bigrams, logistic regression", "most frequent class"),
        *("MiniLM, finetuned", "most frequent tag of each word"),
    ]
