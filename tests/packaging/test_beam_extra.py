"""The tests that need Apache Beam, which takes an older protobuf than TensorFlow would."""

import pytest

from tests.support.environments import PROJECT, ROOT, environment, run

pytestmark = pytest.mark.slow(minutes=12)  # installs packages


def test_text_is_prepared_on_runners_of_beam():
    extra = PROJECT["optional-dependencies"]["beam"]
    python = environment("beam", [*PROJECT["dependencies"], *extra, "pytest>=8"])
    out = run([python, "-m", "pytest", "tests/data/shards/test_beam.py"], ROOT, timeout=600)
    assert "passed" in out and "skipped" not in out
    print(out)
