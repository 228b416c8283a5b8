"""What `make` does before anything is installed."""

import os
import re
import shutil
import subprocess

import pytest

from tests.support.environments import PROJECT, ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=kept | variables,
        text=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def test_make_alone_lists_every_target():
    listed = set(re.findall(r"^make (\S+)", make().stdout, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert listed == set(phony.split()) - {"help"}


def test_an_unfit_python_is_an_error_in_one_line(tmp_path):
    old = tmp_path / "old python"
    old.write_text("#!/bin/sh\necho 'AssertionError' >&2\nexit 1\n")
    old.chmod(0o755)
    for python in (old, tmp_path / "missing", ""):
        done = make("install", f"PYTHON={python}", f"VENV={tmp_path.name}-never-made")
        first, *rest = done.stderr.strip().splitlines()
        assert done.returncode == 2 and first.startswith("Python 3.11, 3.12 or 3.13 with venv")
        assert first.endswith(f"Received: PYTHON={python}") and len(rest) == 1
    assert not (ROOT / f"{tmp_path.name}-never-made").exists()


def test_the_makefile_asks_for_the_python_that_the_package_asks_for():
    low, high = re.search(
        r"\(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", (ROOT / "Makefile").read_text()
    ).groups()
    assert PROJECT["requires-python"] == f">=3.{low}"
    tensorflow = next(text for text in PROJECT["dependencies"] if text.startswith("tensorflow>"))
    assert f"python_version < '3.{high}'" in tensorflow
