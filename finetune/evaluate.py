"""Evaluates a finetuned model on labeled examples.

    python -m finetune.evaluate --workdir=runs/sst2 --data=test.tsv
    python -m finetune.evaluate --workdir=runs/sst2 --data=test.tsv --output=test.json
    python -m finetune.evaluate --workdir=runs/de --source=test.en --target=test.de

The file has the columns that the model was trained on. Question answering requires SQuAD files, and
translation two aligned files, or one table as --source. Prints one line per metric and per class;
--output of a single run also contains the confusion matrix. In a workdir of several seeds, each run
is evaluated, and the mean and its 95 % confidence interval are printed.
"""

import contextlib

from absl import flags

from keras_attn.cli.command_line import define_engine, define_reading_flags, run_command
from keras_attn.cli.task_options import (
    define_task_flags,
    given_options,
    input_files,
    task_formats,
)


def define_flags():
    flags.DEFINE_string("workdir", None, "Working directory of a finetuning run.", required=True)
    flags.DEFINE_string(
        "data",
        None,
        "Labeled data: a TSV, CSV, JSONL or Parquet file, a glob, "
        "tfds:NAME[:SPLIT] (by default the validation split), or - for standard "
        "input, with --format.",
    )
    define_task_flags("evaluate")
    flags.DEFINE_string(
        "output",
        None,
        "Output file of the metrics (.json), or - for JSON on the "
        "terminal; if unset, a summary is printed.",
    )
    define_reading_flags(task_formats("evaluate"))
    define_engine()


def main():
    from keras_attn.inference.outputs import opened
    from keras_attn.io.json_files import to_json

    values = flags.FLAGS
    inputs = (values.data, *input_files("evaluate", values))
    output = opened(values.output, (".json",), workdir=values.workdir, inputs=inputs)
    with output if values.output else contextlib.nullcontext() as file:
        task, found = _evaluate(values)
        if file:
            file.write(to_json(found, indent=2) + "\n")
    if values.output != "-":
        print("\n".join([*_metric_lines(found), *task.describe(found)]))


def _metric_lines(found):
    """Yields one line per metric, with its confidence interval."""
    from keras_attn.tasks.finetuning.seed_statistics import metric_lines, metrics_among

    runs = found.get("runs")
    if runs:
        for run in runs:
            listed = (f"{name} {value:.4f}" for name, value in metrics_among(run).items())
            yield f"{run['run']}: {' · '.join(listed)}"
        yield from metric_lines(found, metrics_among(found), len(runs))
        for name in ("examples", "skipped"):
            if name in found:
                yield f"{name} {found[name]:,}"
    else:
        for name, value in found.items():
            if isinstance(value, (str, int, float)):
                kind = {int: ",", float: ".4f"}.get(type(value), "")
                low, high = found.get(f"{name}_range", (None, None))
                interval = (
                    ""
                    if low is None
                    else (f" (95 % confidence interval over examples: {low:.4f} to {high:.4f})")
                )
                yield f"{name:20} {value:{kind}}{interval}"


def _evaluate(values):
    """Returns the `Task` of the model, and the metrics."""
    from keras_attn.checkpoints.hub import PREFIX
    from keras_attn.convert import detect
    from keras_attn.errors import UserError
    from keras_attn.inference.evaluate import measure
    from keras_attn.inference.loading import task_of_workdir
    from keras_attn.inference.options import check_options
    from keras_attn.registry import TASKS

    task, options = task_of_workdir(values.workdir), given_options("evaluate", values)
    if values.data is not None:
        options["data"] = values.data
    data_flag = TASKS.fields(task.name).data if task else "data"
    data = options.pop(data_flag, None)
    if data is None:
        if not task and not values.workdir.startswith(PREFIX):
            detect(values.workdir)  # the folder may be missing, too
        held = f", a model for {task.name}" if task else ""
        given = "".join(f", {name}={value}" for name, value in options.items())
        raise UserError(
            f"--{data_flag} is required. Received: workdir={values.workdir}{held}{given}"
        )
    if task:
        check_options(task.name, "evaluate", options)  # before the model is loaded
    reading = {
        "format": values.format,
        "text": values.text_column,
        "text_pair": values.text_pair_column,
        "on_bad_text": values.on_bad_text,
        "encoding": values.encoding,
        "max_line": values.max_line,
    }
    precision = options.pop("precision", None)
    return measure(values.workdir, data, values.batch_size, reading, precision, options)


def command():
    """Entry point of `python -m finetune.evaluate` and `keras-attn-evaluate`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
