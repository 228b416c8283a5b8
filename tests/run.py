"""Runs tests in many short processes, one for each core at a time.

    python tests/run.py [--files=N] [PATH ...] [OPTION OF PYTEST ...]

In a process that runs thousands of tests, each takes longer. Processes are forked from one that has
imported what most tests import.
"""

import argparse
import collections
import multiprocessing.connection
import multiprocessing.forkserver
import os
import pathlib
import re
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PRELOADED = [
    *("pytest", "scipy.special", "sklearn.metrics", "keras_attn.models", "keras_attn.visualize"),
    *("keras_attn.runs.run_task", "keras_attn.convert", "keras_attn.inference.loading"),
]
RESULTS = "passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed"
NOTHING_SELECTED = 5  # of the exit codes of pytest


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        usage=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--files", type=int, default=12, help="files of each process")
    given, rest = parser.parse_known_args()
    count = next((n for n, argument in enumerate(rest) if argument.startswith("-")), len(rest))
    paths, options = rest[:count] or ["tests"], rest[count:]
    os.chdir(ROOT)
    files = sorted({file for path in paths for file in _files(path)})
    waiting = [files[start : start + given.files] for start in range(0, len(files), given.files)]
    waiting.sort(key=lambda part: sum(map(os.path.getsize, part)))  # the short ones last
    total, begin, counts, codes = len(waiting), time.monotonic(), collections.Counter(), []
    remarkable = []
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    _start_server()
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        while waiting or running:
            while waiting and len(running) < os.cpu_count():
                part = Part(context, waiting.pop(), options, f"{folder}/{len(waiting)}")
                running[part.process.sentinel] = part
            for sentinel in multiprocessing.connection.wait(list(running)):
                part = running.pop(sentinel)
                output = part.finish()
                summary = output.rstrip().rpartition("\n")[2]
                counts.update({name: int(n) for n, name in re.findall(r"(\d+) ([a-z]+)", summary)})
                remarkable += re.findall(
                    r"^(?:FAILED|ERROR) .*|.*TESTS_END.*", output, re.MULTILINE
                )
                codes.append(part.process.exitcode)
                if codes[-1] not in (0, NOTHING_SELECTED):
                    print(output)
                print(f"[{len(codes)}/{total}] {part.files[0]} …: {summary}", flush=True)
    for line in remarkable:
        print(line)
    found = [f"{counts[name]} {name}" for name in RESULTS if counts[name]]
    print(f"{', '.join(found) or 'no tests'} in {time.monotonic() - begin:.0f} s")
    return int(not found or any(code not in (0, NOTHING_SELECTED) for code in codes))


def _start_server():
    """Starts the process that the others are forked from, without TensorFlow's messages."""
    settings = {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
        "OPENBLAS_NUM_THREADS": "1",  # as many processes run as there are cores
    }
    os.environ |= settings | os.environ
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    multiprocessing.forkserver.ensure_running()
    os.dup2(stderr, 2)


def _files(path):
    path = pathlib.Path(path)
    if not path.exists():
        sys.exit(f"No such file or folder: {path}")
    return map(str, path.rglob("test_*.py")) if path.is_dir() else [str(path)]


class Part:
    """A process that runs pytest on some files, with its output in a file."""

    def __init__(self, context, files, options, output):
        self.files, self._output = files, pathlib.Path(output)
        self.process = context.Process(target=run_pytest, args=([*options, *files], output))
        self.process.start()

    def finish(self):
        """Returns the output of the process, which has ended."""
        self.process.join()
        text, code = self._output.read_text(errors="replace"), self.process.exitcode
        return f"{text}\nkilled by signal {-code}" if code < 0 else text


def run_pytest(arguments, output):
    import pytest

    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
