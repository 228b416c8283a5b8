"""Unit tests and a few commands on the lower bounds of pyproject.toml."""

import re
import sys

import pytest

from tests.support.environments import PROJECT, environment, run_tests

pytestmark = pytest.mark.slow(minutes=12)
COMMANDS = "tests/integration/test_pretrain_finetune_predict.py"


def lowest(requirements):
    """`name>=1.2,<3; marker` as `name==1.2; marker`."""
    return [re.sub(r">=([\d.]+)(,<[\d.]+)?", r"==\1", text) for text in requirements]


@pytest.fixture(scope="module")
def python():
    extras = PROJECT["optional-dependencies"]
    pinned = lowest(PROJECT["dependencies"] + extras["report"] + extras["test"])
    assert "tensorflow==2.19.1" in [text.partition(";")[0] for text in pinned]
    # Newer ones need a newer protobuf than TensorFlow 2.19 takes, and NumPy 2; they do not say so.
    return environment("oldest", [*pinned, "tensorflow-metadata<1.18", "pyarrow<26"])


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="no wheels of TensorFlow 2.19 for it")
@pytest.mark.parametrize(
    "arguments", [[], [COMMANDS, "-m", "runs and not slow"]], ids=["units", "commands"]
)
def test_tests_pass_on_the_lower_bounds(arguments, python):
    run_tests(python, *arguments, "--quick-compile")
