"""Virtual environments for tests that require other packages."""

import fcntl
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The last two for the tokenizer of XLNet.
TRANSFORMERS = ["torch==2.13.0", "transformers>=5,<6", "numpy", "sentencepiece", "protobuf"]
SENTENCE_TRANSFORMERS = ["torch==2.13.0", "sentence-transformers>=6,<7"]


def environment(name, requirements):
    """Python of an environment with these requirements, made when they change.

    It lies inside the environment of the tests, which `make clean` removes.
    """
    folder = Path(sys.prefix) / "environments" / name
    python = folder / "bin" / "python"
    wanted = hashlib.sha256("\n".join(requirements).encode()).hexdigest()
    made = folder / "made"
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes run tests
        if not made.is_file() or made.read_text() != wanted:
            make_environment(folder)
            install(python, *requirements)
            made.write_text(wanted)
    return python


def with_tensorflow(python):
    """Python of the environment of the tests, with the packages of another one that it lacks."""
    folder = python.parents[1].with_name(f"{python.parents[1].name}-with-tensorflow")
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    sites = [
        next(Path(root).glob("lib/*/site-packages")) for root in (sys.prefix, python.parents[1])
    ]
    own = next(folder.glob("lib/*/site-packages"))
    (own / "others.pth").write_text("".join(f"{site}\n" for site in sites))
    return folder / "bin" / "python"


def make_environment(folder):
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install(folder / "bin" / "python", "--upgrade", "pip")


def install(python, *arguments):
    """Runs `pip install`; fails with the output of pip."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments]
    # pip takes what lies on PYTHONPATH for installed.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=kept, timeout=600)
    assert done.returncode == 0, f"pip install {arguments}:\n{done.stderr[-3000:]}"


def run(command, cwd, timeout=600, **variables):
    """Returns the output of a command that must succeed, without our Python settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "KERAS_BACKEND", "PYTEST_ADDOPTS", "TF_CONFIG", "TESTS_END")
        and not name.startswith("PYTEST_")
    }
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # also the processes that it has started
            output, _ = process.communicate()
            raise subprocess.TimeoutExpired(command, timeout, output) from None
    assert process.returncode == 0, (
        f"{command} ended with {process.returncode}:\n{output[-20_000:]}"
    )
    return output


def run_tests(python, *arguments, **variables):
    """Runs tests/run.py; with TESTS_END, skips the test if the others do not end by then."""
    left = float(os.environ.get("TESTS_END", "inf")) - time.time()
    try:
        output = run([python, "tests/run.py", *arguments], ROOT, min(left, 3600), **variables)
    except subprocess.TimeoutExpired as error:
        output = error.output
        if left > 3600 or re.search(r"\d+ (failed|error)", output):
            pytest.fail(output[-20_000:])
        print(output)
        pytest.skip("no time left (TESTS_END)")
    print(output)
