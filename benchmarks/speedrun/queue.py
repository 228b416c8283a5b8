r"""The speedrun of masked language models: runs one after another, and their quality over time.

    python -m benchmarks.speedrun.queue --runs=benchmarks/speedrun/runs.json --minutes=10,60 \
        --text='novels/train/*.txt.gz' --held_out='novels/valid/*.txt.gz' --output=runs/speedrun

The file --runs is a list of objects with a `name` and the `flags` of `python -m pretrain`. Each run
is trained for each of --minutes with each seed, in that order, and then judged
(`benchmarks.speedrun.judge`). A result is a line of results.jsonl in --output. The same command
continues a queue that was stopped or killed: runs with a result are not repeated, and an unfinished
run resumes from its checkpoint. A run or judgement that fails is a line with `error`, and is tried
again by the next command. At the end, and alone with --minutes=0, the command prints a table and
draws plot.png (`pip install 'keras-attn[plot]'`).

--text may be a folder of `python -m pretrain.prepare`, so that the text is tokenized once.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys

from absl import flags

from benchmarks.speedrun.judge import judge
from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError

FLAGS = flags.FLAGS


def main():
    os.makedirs(FLAGS.output, exist_ok=True)
    path = os.path.join(FLAGS.output, "results.jsonl")
    runs, budgets = read_runs(FLAGS.runs), [m for m in map(float, FLAGS.minutes) if m]
    for minutes, run, seed in itertools.product(budgets, runs, range(FLAGS.seeds)):
        key = {"name": run["name"], "flags": run["flags"], "minutes": minutes, "seed": seed}
        if any(is_result(line, key) for line in read_results(path)):
            continue
        print(f"{run['name']}, {minutes:g} minutes, seed {seed}", flush=True)
        append(path, {**key, **trained(key)})
    found = [line for line in read_results(path) if "error" not in line]
    print(table(found))
    if found:
        draw(found, os.path.join(FLAGS.output, "plot.png"))


def read_runs(path):
    """Returns the runs of a file.

    Raises:
        UserError: If two runs have the same name, or one lacks an entry.
    """
    with open(path) as file:
        runs = json.load(file)
    names = [run.get("name") for run in runs]
    if len(set(names)) < len(names) or not all("flags" in run and run.get("name") for run in runs):
        raise UserError(
            f"{path} must be a list of runs with a name of their own and flags. Received: {names}"
        )
    return runs


def read_results(path):
    """Returns the lines of a file; the last one is dropped if a kill left it incomplete."""
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def append(path, result):
    """Appends a line, after removing an incomplete one."""
    with open(path, "a+") as file:
        file.seek(0)
        content = file.read()
        file.truncate(len(content[: content.rfind("\n") + 1].encode()))
        file.write(json.dumps(result) + "\n")


def is_result(line, key):
    """Returns whether a line is the result of a run.

    Raises:
        UserError: If the run had other flags then.
    """
    same = all(line[name] == key[name] for name in ("name", "minutes", "seed"))
    if not same or "error" in line:
        return False
    if line["flags"] != key["flags"]:
        raise UserError(
            f"The flags of {key['name']} have changed since its result. Choose another name. "
            f"Received: {key['flags']}, not {line['flags']}"
        )
    return True


def trained(key):
    """Trains a run to its end, or resumes it, and returns its result."""
    workdir = os.path.join(FLAGS.output, f"{key['name']}-{key['minutes']:g}-{key['seed']}")
    command = [
        *(sys.executable, "-m", "pretrain", f"--workdir={workdir}", *key["flags"]),
        f"--config.data.train={FLAGS.text}",
        f"--config.train.minutes={key['minutes']:g}",
        f"--config.train.seed={key['seed']}",
    ]
    with open(f"{workdir}.log", "a") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
    if code in (-2, -15, 130, 143):  # stopped by a signal: neither a result nor a failure
        sys.exit(code if code > 0 else 128 - code)
    if code:
        return {"error": f"exit status {code}"}
    with open(os.path.join(workdir, "results.json")) as file:
        results = json.load(file)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    try:
        judged = judge(workdir, FLAGS.held_out)
    except UserError as error:
        return {"error": str(error)}
    return {
        **judged,
        **{name: results[name] for name in ("steps", "examples", "seconds", "weights_sha256")},
        "commit": commit.stdout.strip() or None,
    }


def by_name(found):
    """Returns `{name: {minutes: [nats per character of each seed]}}`."""
    groups = {}
    for line in found:
        times = groups.setdefault(line["name"], {})
        times.setdefault(line["minutes"], []).append(line["nats_per_character"])
    return groups


def table(found):
    """Returns a Markdown table of the mean over seeds, with the range of several."""
    groups = by_name(found)
    times = sorted({minutes for values in groups.values() for minutes in values})
    lines = [
        f"| nats per character after | {' | '.join(f'{t:g} min' for t in times)} |",
        f"|---|{'---|' * len(times)}",
    ]
    for name, values in groups.items():
        cells = [_cell(values.get(minutes, [])) for minutes in times]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(scores):
    if not scores:
        return ""
    spread = f" ({min(scores):.4f} to {max(scores):.4f})" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.4f}{spread}"


def draw(found, path):
    """Draws quality over training time, with a line for each name."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: matplotlib is missing. Run: pip install 'keras-attn[plot]'")
        return
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, values in by_name(found).items():
        times = sorted(values)
        axes.plot(times, [statistics.mean(values[t]) for t in times], "o-", label=name)
    axes.set(xscale="log", xlabel="minutes of training", ylabel="nats per character, held out")
    axes.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    flags.DEFINE_string("runs", None, "JSON file of the runs.", required=True)
    flags.DEFINE_string("text", None, "data.train of all runs.", required=True)
    flags.DEFINE_string("held_out", None, "Files of the held-out text.", required=True)
    flags.DEFINE_string("output", None, "Folder of the workdirs and results.", required=True)
    flags.DEFINE_list("minutes", ["10"], "Minutes of training.")
    flags.DEFINE_integer("seeds", 1, "Runs per name and time.", lower_bound=1)
    run_command(main, __doc__)
