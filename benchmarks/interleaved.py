"""Interleaved measurements of the same work in several environments.

The speed of a shared machine changes by half within minutes, so single runs cannot be compared.
Here each contender is a process that stays alive: all are measured repeatedly, one at a time, and
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

SWITCHES = "xla", "bf16", "compile", "static"  # options that modes set


class Contender:
    """A process that repeats some work on request.

    Args:
        name: Name in tables.
        python: Python of its environment.
        module: Module to run with `-m`; it calls `serve`.
        options: JSON-serializable options of the module.
        backend: Backend of Keras, if the module uses it.
    """

    def __init__(self, name, python, module, options, backend="tensorflow"):
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", module, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": backend},
        )
        # Read continuously, so that the pipe never fills.
        self._stderr = []
        threading.Thread(
            target=lambda: self._stderr.extend(self._process.stderr), daemon=True
        ).start()

    def measure(self, count):
        """Returns the report of `count` repetitions, with the `seconds` of one.

        With a count of 0, it only reports.
        """
        try:
            self._process.stdin.write(f"{count}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            self._process.wait(60)
            raise RuntimeError(f"{self.name} failed:\n{''.join(self._stderr)[-3000:]}") from error

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:  # still preparing when another has failed
            self._process.kill()


@contextlib.contextmanager
def running(contenders):
    """Yields the contenders and ends their processes after the `with` block."""
    try:
        yield contenders
    finally:
        for contender in contenders:
            contender.close()


def serve(prepare):
    """Runs a contender: reads a count per line, repeats the work and writes the time.

    Args:
        prepare: Function of the options; returns a function that takes a count, repeats the work
            and returns a dictionary to report.
    """
    # Only results may appear on standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work = prepare(json.loads(sys.argv[1]))
    begin = time.perf_counter()
    work(1)  # compiles
    if time.perf_counter() - begin < 10:
        work(2)  # warms up caches
    for line in sys.stdin:
        count = int(line)
        begin = time.perf_counter()
        report = work(count)
        seconds = (time.perf_counter() - begin) / max(1, count)
        answers.write(json.dumps({"seconds": seconds, **report}) + "\n")
        answers.flush()


def check_length(found, wanted):
    """Checks the number of tokens: another length would be a different amount of work."""
    if found != wanted:
        raise ValueError(f"Expected {wanted} tokens. Received: {found}")


def in_turn(contenders, turns, seconds):
    """Measures all contenders `turns` times.

    Args:
        contenders: List of `Contender`.
        turns: Number of measurements of each contender.
        seconds: Approximate seconds per measurement.

    Returns:
        `{name: [seconds per repetition, …]}`, in the order of the turns.
    """
    found = reports_in_turn(contenders, turns, counts_of(contenders, seconds))
    return {name: [report["seconds"] for report in reports] for name, reports in found.items()}


def counts_of(contenders, seconds):
    """Returns `{name: repetitions that take about that many seconds}`, at least 1."""
    return {c.name: max(1, round(seconds / c.measure(1)["seconds"])) for c in contenders}


def reports_in_turn(contenders, turns, counts):
    """Returns `{name: [report, …]}`, of `counts[name]` repetitions in each turn."""
    found = {c.name: [] for c in contenders}
    for turn in range(turns):
        # The order rotates: threads of the previous contender may still be busy.
        first = turn % max(1, len(contenders))
        for contender in contenders[first:] + contenders[:first]:
            found[contender.name].append(contender.measure(counts[contender.name]))
    return found


def fastest_mode(modes, start, seconds):
    """Returns the fastest mode of a library, each tried alone; None if no mode works.

    Args:
        modes: Names such as "xla+bf16".
        start: Function that takes a mode and returns a `Contender`.
        seconds: Approximate seconds per mode.
    """
    times = {}
    for mode in modes:
        with running([start(mode)]) as (contender,):
            title = f"  {contender.name} {mode or 'plain'}"
            try:
                times[mode] = min(in_turn([contender], 2, seconds / 2)[contender.name])
                print(f"{title}: {times[mode] * 1e3:.1f} ms", flush=True)
            except RuntimeError as error:
                print(f"{title} failed: {str(error).splitlines()[-1]}", flush=True)
    return min(times, key=times.get, default=None)


@dataclasses.dataclass(frozen=True)
class Library:
    """A library to compare, measured in its fastest mode.

    Attributes:
        name: Name in tables.
        folder: Folder of its environment; None for the current one.
        module: Module of its contender.
        modes: Names of modes: the enabled switches, joined by "+".
    """

    name: str
    folder: str | None
    module: str
    modes: tuple

    def start(self, environments, mode, options):
        """Returns a `Contender` with the switches of the mode as options."""
        switches = {switch: switch in mode.split("+") for switch in SWITCHES}
        return Contender(
            self.name,
            python_of(self.name, environments, self.folder),
            self.module,
            {**options, **switches},
        )

    def best_mode(self, environments, options, wanted, seconds):
        """Returns the fastest mode; None if it is not installed or no mode works.

        Args:
            environments: Folder of the environments of `make bench-env`.
            options: Options of the contender.
            wanted: Modes to try, where "plain" has no switches; None for all.
            seconds: Approximate seconds per mode.
        """
        if not python_of(self.name, environments, self.folder):
            return None
        return fastest_mode(
            [mode for mode in self.modes if wanted is None or (mode or "plain") in wanted],
            lambda mode: self.start(environments, mode, options),
            seconds,
        )


def compare_best(found, ours, others):
    """Prints our speedup over the fastest baseline, by turns, and returns the median.

    Args:
        found: Times, as `in_turn` returns.
        ours: Names of our contenders, of which the fastest counts.
        others: Names of the baselines, of which the fastest counts.
    """
    own, other = (
        min(names, key=lambda name: statistics.median(found[name])) for names in (ours, others)
    )
    ratios = [b / a for a, b in zip(found[own], found[other], strict=True)]
    print(f"speedup of {own} over {other}: {median_range(ratios, 2)}", flush=True)
    return statistics.median(ratios)


def compare_libraries(title, libraries, ours, others, options, tokens, target, values):
    """Measures each library in its fastest mode, in turn, and prints tokens per second.

    Args:
        title: Title of the table.
        libraries: List of `Library`.
        ours: Name of our library.
        others: Names of the baselines.
        options: Options of the contenders.
        tokens: Number of tokens per repetition.
        target: Required speedup over the fastest baseline.
        values: Flags `environments`, `modes`, `seconds` and `turns`.

    Returns:
        List of descriptions of what misses the target or was not measured.
    """
    best = {
        one: one.best_mode(values.environments, options, values.modes, values.seconds)
        for one in libraries
    }
    with running(
        [
            one.start(values.environments, mode, options)
            for one, mode in best.items()
            if mode is not None
        ]
    ) as contenders:
        found = in_turn(contenders, values.turns, values.seconds)
    print(f"\n{title}")
    for one, mode in best.items():
        if one.name in found:
            rates = [tokens / seconds for seconds in found[one.name]]
            print(
                f"{one.name + ' ' + (mode or 'fp32'):32}{median_range(rates):>32} tokens/s",
                flush=True,
            )
    missed = [f"{title}: not measured: {one.name}" for one in best if one.name not in found]
    others = [name for name in others if name in found]
    if ours in found and others:
        ratio = compare_best(found, [ours], others)
        missed += [f"{title}: {ratio:.2f} times"] if ratio < target else []
    return missed


def python_of(name, environments, folder):
    """Returns the Python of a library; None if the library is not installed.

    Args:
        name: Name of the library.
        environments: Folder of the environments of `make bench-env`.
        folder: Folder of the library in it; None for the current environment.
    """
    python = os.path.join(environments, folder, "bin", "python") if folder else sys.executable
    if os.path.exists(python):
        return python
    print(f"{name} is not installed and skipped. Run: make bench-env")
    return None


def left_out(values, **wanted):
    """Returns descriptions of what a check requires and the flags leave out.

    Args:
        values: Flag values, of list flags.
        **wanted: Strings that a flag must contain, by the name of the flag.
    """
    return [
        f"--{name} leaves out {one}"
        for name, needed in wanted.items()
        for one in needed
        if one not in values[name].value
    ]


def median_range(values, digits=1):
    """Formats the median and the range for tables."""
    return (
        f"{statistics.median(values):.{digits}f} "
        f"({min(values):.{digits}f} to {max(values):.{digits}f})"
    )
