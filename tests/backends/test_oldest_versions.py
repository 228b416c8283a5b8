"""The suite on the lower bounds of pyproject.toml."""

import re
import sys

import pytest
from environments import PROJECT, ROOT, environment, run

pytestmark = pytest.mark.slow
# Half of the time of all, about choices and messages of our own code: the other tests call all
# that these call of other packages.
OURS = ["convert/test_bad_folders.py", "integration/test_bad_input.py",
        "integration/test_dry_run.py", "integration/test_edges.py",
        "jobs/test_finetuning_choices.py", "jobs/test_kinds_of_task.py", "jobs/test_report.py"]


def lowest(requirements):
    """`name>=1.2,<3; marker` as `name==1.2; marker`."""
    return [re.sub(r">=([\d.]+)(,<[\d.]+)?", r"==\1", text) for text in requirements]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="no wheels of TensorFlow 2.19 for it")
def test_the_suite_passes_on_the_lower_bounds():
    extras = PROJECT["optional-dependencies"]
    pinned = lowest(PROJECT["dependencies"] + extras["report"] + extras["test"])
    assert "tensorflow==2.19.1" in [text.partition(";")[0] for text in pinned]
    # Newer ones need a newer protobuf than TensorFlow 2.19 takes, and do not say so.
    python = environment("oldest", [*pinned, "tensorflow-metadata<1.18"])
    assert all((ROOT / "tests" / name).exists() for name in OURS)
    print(run([python, "-m", "pytest", "-n", "2", "--dist", "loadfile",
               *[f"--ignore=tests/{name}" for name in OURS]], ROOT, timeout=1800))
