"""Runs tests in many short processes, one for each core at a time.

    python tests/run.py [--files=N] [PATH ...] [OPTION OF PYTEST ...]

In a process that runs thousands of tests, each takes longer. Processes are forked from one that has
imported what most tests import.
"""

import argparse
import collections
import concurrent.futures
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
RESULTS = "passed", "failed", "error", "errors", "skipped"
NOTHING_SELECTED = 5  # of the exit codes of pytest


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        usage=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--files", type=int, default=12, help="files of each process")
    given, rest = parser.parse_known_args()
    os.chdir(ROOT)
    paths = [x for x in rest if os.path.exists(x)] or ["tests"]
    options = [x for x in rest if not os.path.exists(x)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    _start_server()
    files = sorted({file for path in paths for file in _files(path)})
    parts = [files[start : start + given.files] for start in range(0, len(files), given.files)]
    parts.sort(key=lambda part: -sum(map(os.path.getsize, part)))  # the short ones last
    begin, counts, failed = time.monotonic(), collections.Counter(), False
    threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    try:
        running = [threads.submit(run_part, context, part, options) for part in parts]
        for ended, done in enumerate(concurrent.futures.as_completed(running), 1):
            part, code, output = done.result()
            summary = output.rstrip().rpartition("\n")[2]
            counts.update({name: int(n) for n, name in re.findall(r"(\d+) ([a-z]+)", summary)})
            if code not in (0, NOTHING_SELECTED):
                failed = True
                print(output)
            print(f"[{ended}/{len(parts)}] {part[0]} …: {summary}", flush=True)
    finally:
        threads.shutdown(cancel_futures=True)
    found = [f"{counts[name]} {name}" for name in RESULTS if counts[name]]
    print(f"{', '.join(found)} in {time.monotonic() - begin:.0f} s")
    return int(failed)


def _start_server():
    """Starts the process that the others are forked from, without TensorFlow's messages."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"} | os.environ
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    multiprocessing.forkserver.ensure_running()
    os.dup2(stderr, 2)


def _files(path):
    path = pathlib.Path(path)
    return map(str, path.rglob("test_*.py")) if path.is_dir() else [str(path)]


def run_part(context, files, options):
    """Returns the files, the exit code of pytest and its output."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace") as output:
        process = context.Process(target=run_pytest, args=([*options, *files], output.name))
        process.start()
        process.join()
        text = output.read()
        if process.exitcode < 0:
            text += f"\nkilled by signal {-process.exitcode}"
        return files, process.exitcode, text


def run_pytest(arguments, output):
    import pytest

    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main())
