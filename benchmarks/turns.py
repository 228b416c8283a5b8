"""The same work in several environments, timed in turn.

A shared machine changes its speed by half within minutes, so single runs cannot be compared. Here
every contender is a process that stays: all are measured again and again, one at a time, and
compared turn by turn.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import threading
import time

SWITCHES = "xla", "bf16", "compile", "static"  # of modes


class Contender:
    """A process that does some work as often as it is told.

    Args:
        name: What tables call it.
        python: Of its environment.
        module: Run with `-m`; it calls `serve`.
        options: Handed to it, JSON-able.
        backend: Of Keras, where the module uses it.
    """

    def __init__(self, name, python, module, options, backend="tensorflow"):
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(options)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": backend})
        # What it says on stderr must not fill the pipe.
        self._said = []
        threading.Thread(target=lambda: self._said.extend(self._process.stderr),
                         daemon=True).start()

    def measure(self, count):
        """Seconds that one of `count` pieces of work takes, and what else it reports.

        With a count of 0 it only reports.
        """
        try:
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            self._process.wait(60)
            raise RuntimeError(f"{self.name} failed:\n{''.join(self._said)[-3000:]}") from error

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:  # still preparing, while another has failed
            self._process.kill()


@contextlib.contextmanager
def running(contenders):
    """Ends the processes of contenders after a `with` block, and yields them."""
    try:
        yield contenders
    finally:
        for contender in contenders:
            contender.close()


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
        seconds = (time.perf_counter() - begin) / max(1, count)
        answers.write(json.dumps({"seconds": seconds, **report}) + "\n")
        answers.flush()


def check_length(found, wanted):
    """Texts of another length would be other work."""
    if found != wanted:
        raise ValueError(f"{wanted} tokens are needed. Received: {found}")


def in_turn(contenders, turns, seconds):
    """Measures all, `turns` times.

    Args:
        contenders: List of `Contender`.
        turns: How often each is measured.
        seconds: That each measurement should take, about.

    Returns:
        `{name: [seconds of a piece of work, …]}`, in the order of the turns.
    """
    found = reports_in_turn(contenders, turns, counts_of(contenders, seconds))
    return {name: [report["seconds"] for report in reports] for name, reports in found.items()}


def counts_of(contenders, seconds):
    """`{name: pieces of work that take so long}`, 1 at least."""
    return {c.name: max(1, round(seconds / c.measure(1)["seconds"])) for c in contenders}


def reports_in_turn(contenders, turns, counts):
    """`{name: [what it reports, …]}`, from `counts[name]` pieces of work in each turn."""
    found = {c.name: [] for c in contenders}
    for turn in range(turns):
        # Each begins once in a while: the threads of the one before may not have come to rest.
        first = turn % max(1, len(contenders))
        for contender in contenders[first:] + contenders[:first]:
            found[contender.name].append(contender.measure(counts[contender.name]))
    return found


def fastest_mode(modes, start, seconds):
    """The mode in which a library is fastest, each tried alone; None if none works here.

    Args:
        modes: Names such as "xla+bf16".
        start: Function of a mode; returns a `Contender`.
        seconds: Of a try, about.
    """
    times = {}
    for mode in modes:
        with running([start(mode)]) as (contender,):
            said = f"  {contender.name} {mode or 'plain'}"
            try:
                times[mode] = min(in_turn([contender], 2, seconds / 2)[contender.name])
                print(f"{said}: {times[mode] * 1e3:.1f} ms", flush=True)
            except RuntimeError as error:
                print(f"{said} does not run here: {str(error).splitlines()[-1]}", flush=True)
    return min(times, key=times.get, default=None)


@dataclasses.dataclass(frozen=True)
class Library:
    """One of those that are compared, in the mode that is its fastest.

    Attributes:
        name: What tables call it.
        folder: Of its environment; None for ours.
        module: Of its contender.
        modes: Switches that are on, joined by "+".
    """

    name: str
    folder: str | None
    module: str
    modes: tuple

    def start(self, environments, mode, options):
        """Its `Contender`, to which the switches of the mode are options."""
        switches = {switch: switch in mode.split("+") for switch in SWITCHES}
        return Contender(self.name, python_of(self.name, environments, self.folder), self.module,
                         {**options, **switches})

    def best_mode(self, environments, options, wanted, seconds):
        """The fastest mode, of those wanted if not None ("plain" is that without switches); None
        if it is not installed or none works."""
        if not python_of(self.name, environments, self.folder):
            return None
        return fastest_mode(
            [mode for mode in self.modes if wanted is None or (mode or "plain") in wanted],
            lambda mode: self.start(environments, mode, options), seconds)


def compare_best(found, ours, others):
    """Says how much faster ours is than the fastest other, by turns; returns the median.

    Args:
        found: As `in_turn` returns.
        ours, others: Names; the fastest of each counts.
    """
    own, other = (min(names, key=lambda name: statistics.median(found[name]))
                  for names in (ours, others))
    ratios = [b / a for a, b in zip(found[own], found[other], strict=True)]
    print(f"{own} is {spread(ratios, 2)} times as fast as {other}", flush=True)
    return statistics.median(ratios)


def compare_libraries(said, libraries, ours, others, options, tokens, target, values):
    """Times each library in its fastest mode, in turn, and prints tokens a second.

    Args:
        said: What the table is of.
        libraries: List of `Library`.
        ours, others: Names; those that are compared.
        options: Of the contenders.
        tokens: Of a piece of work.
        target: How many times as fast as the fastest other ours is to be.
        values: Flags `environments`, `modes`, `seconds` and `turns`.

    Returns:
        List of what misses the target or was not measured, in words.
    """
    best = {one: one.best_mode(values.environments, options, values.modes, values.seconds)
            for one in libraries}
    with running([one.start(values.environments, mode, options)
                  for one, mode in best.items() if mode is not None]) as contenders:
        found = in_turn(contenders, values.turns, values.seconds)
    print(f"\n{said}")
    for one, mode in best.items():
        if one.name in found:
            rates = [tokens / seconds for seconds in found[one.name]]
            print(f"{one.name + ' ' + (mode or 'fp32'):32}{spread(rates):>32} tokens/s", flush=True)
    missed = [f"{said}: not measured: {one.name}" for one in best if one.name not in found]
    others = [name for name in others if name in found]
    if ours in found and others:
        ratio = compare_best(found, [ours], others)
        missed += [f"{said}: {ratio:.2f} times"] if ratio < target else []
    return missed


def python_of(name, environments, folder):
    """The Python of a library, or None if it is not installed.

    Args:
        name: Of the library.
        environments: Folder that `make bench-env` made.
        folder: Of the library in it; None for ours.
    """
    python = os.path.join(environments, folder, "bin", "python") if folder else sys.executable
    if os.path.exists(python):
        return python
    print(f"{name} is left out: make bench-env would install it")
    return None


def left_out(values, **wanted):
    """What a check needs and the flags leave out, in words.

    Args:
        values: Flags that are lists.
        **wanted: Strings that a flag must have, by its name.
    """
    return [f"--{name} leaves out {one}" for name, needed in wanted.items()
            for one in needed if one not in values[name].value]


def spread(values, digits=1):
    """Median and range, as tables give them."""
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")
