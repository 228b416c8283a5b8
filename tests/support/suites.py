"""Tests in other environments."""

import os
import subprocess
import time

import pytest

from tests.support.environments import ROOT, run

# About how long one part takes, besides installing; on a slow machine three times as long.
MINUTES = 12


def run_tests(python, *arguments, **variables):
    """Runs tests/run.py; with TESTS_END, skips the test if the tests do not end until then."""
    left = float(os.environ.get("TESTS_END", "inf")) - time.time()
    command = [python, "tests/run.py", *arguments]
    try:
        print(run(command, ROOT, timeout=min(left, 3600), **variables))
    except subprocess.TimeoutExpired:
        if left > 3600:
            raise
        pytest.skip("no time left (TESTS_END)")
