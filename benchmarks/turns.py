"""The same work in several environments, timed in turn.

A shared machine changes its speed by half within minutes, so single runs cannot be compared. Here
every contender is a process that stays: all are measured again and again, one at a time, and
compared turn by turn.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time


class Contender:
    """A process that does some work as often as it is told.

    Args:
        name: What tables call it.
        python: Of its environment.
        module: Run with `-m`; it calls `serve`.
        options: Handed to it, JSON-able.
    """

    def __init__(self, name, python, module, options):
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(options)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"})
        # What it says on stderr must not fill the pipe.
        self._said = []
        threading.Thread(target=lambda: self._said.extend(self._process.stderr),
                         daemon=True).start()

    def measure(self, count):
        """Seconds that one of `count` pieces of work takes, and what else it reports."""
        try:
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            self._process.wait(60)
            raise RuntimeError(f"{self.name} failed:\n{''.join(self._said)[-3000:]}") from error

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)


def serve(prepare):
    """What a contender's module does: for each line with a number, so much work, timed.

    Args:
        prepare: Function of the options; returns a function of a number, which does so much work
            and returns a dict to report.
    """
    # Only results may appear on standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = prepare(json.loads(sys.argv[1]))
    begin = time.perf_counter()
    work(1)  # compiles
    if time.perf_counter() - begin < 10:
        work(2)  # fills caches
    for line in sys.stdin:
        count = int(line)
        begin = time.perf_counter()
        report = work(count)
        seconds = (time.perf_counter() - begin) / count
        answers.write(json.dumps({"seconds": seconds, **report}) + "\n")
        answers.flush()


def in_turn(contenders, turns, seconds):
    """Measures all, `turns` times.

    Args:
        contenders: List of `Contender`.
        turns: How often each is measured.
        seconds: That each measurement should take, about.

    Returns:
        `{name: [seconds of a piece of work, …]}`, in the order of the turns.
    """
    counts = {c.name: max(1, round(seconds / c.measure(1)["seconds"])) for c in contenders}
    found = {c.name: [] for c in contenders}
    for _ in range(turns):
        for contender in contenders:
            found[contender.name].append(contender.measure(counts[contender.name])["seconds"])
    return found


def spread(values, digits=1):
    """Median and range, as tables give them."""
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")
