"""The notebooks run from beginning to end."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.runs
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_committed_outputs_are_small(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    spec = importlib.util.spec_from_file_location("execute", ROOT / "notebooks/execute.py")
    execute = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(execute)
    cells = execute.execute(path).cells
    committed = execute.nbformat.read(path, as_version=4).cells
    assert path.stat().st_size < 100_000
    assert [len(cell.get("outputs", ())) > 0 for cell in cells] == [
        len(cell.get("outputs", ())) > 0 for cell in committed
    ]
