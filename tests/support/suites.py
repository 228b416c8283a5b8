"""The parts of the suite that other environments run."""

from tests.support.environments import ROOT, run

# What depends on Keras alone.
LIBRARY = ("tests/ops", "tests/layers", "tests/models", "tests/generation")
# One part may take so long, besides installing, on a slow machine.
MINUTES = 40


def run_part(python, part, **variables):
    command = [
        python,
        "-m",
        "pytest",
        "-m",
        "not slow and not browser and not thorough",
        "-n",
        "2",
        "--dist",
        "loadfile",
        *part,
    ]
    print(run(command, ROOT, timeout=60 * MINUTES, **variables))
