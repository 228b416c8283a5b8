"""Executes the notebooks and saves their outputs: python notebooks/execute.py"""

import pathlib
import re
import tempfile

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted(pathlib.Path(__file__).parent.glob("*.ipynb"))


def execute(path: pathlib.Path) -> nbformat.NotebookNode:
    """Returns a notebook with the outputs of its cells, executed in an empty folder.

    Args:
        path: The notebook.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        # Log lines of TensorFlow differ by machine.
        cell["outputs"] = [
            output for output in cell.get("outputs", ()) if output.get("name") != "stderr"
        ]
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "text/plain" in data:  # the address of an object
                data["text/plain"] = re.sub(r" at 0x[0-9a-f]+", "", data["text/plain"])
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS:
        nbformat.write(execute(path), path)
