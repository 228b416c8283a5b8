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
