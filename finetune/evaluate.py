"""Measures a finetuned workdir on labelled rows.

    python -m finetune.evaluate --workdir=runs/sst2 --data=test.tsv
    python -m finetune.evaluate --workdir=runs/sst2 --data=test.tsv --output=test.json
    python -m finetune.evaluate --workdir=runs/de --source=test.en --target=test.de

The file has the columns that the model was trained on; for one of reading comprehension
it is SQuAD's; a translator takes two aligned files, or a table as --source alone. Prints a line
for each metric and each class; --output of a single run has confusions, too. Of a folder of several
seeds each is measured: their mean, and how far it can be trusted.
"""

import contextlib

from absl import flags

from keras_attn.cli.command_line import define_reading_flags, run_command
from keras_attn.errors import PRECISIONS

# What tasks call the flags that not every task takes.
OPTIONS = {"data": "data", "source": "source", "target": "target", "label": "label_column",
           "beam": "beam", "length_penalty": "length_penalty", "precision": "precision"}


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of a finetuning run.", required=True)
    flags.DEFINE_string("data", None, "TSV, CSV, JSONL or Parquet file, a glob, "
                        "tfds:NAME[:SPLIT], its validation without a split, or - for standard "
                        "input, with --format.")
    flags.DEFINE_string("source", None, "Of a translator, in place of --data.")
    flags.DEFINE_string("target", None, "Of a translator: the translations, line by line.")
    flags.DEFINE_integer("beam", None, "Of a translator; without: eval.beam of its run.",
                         lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "Of a translator; without: that of its run.")
    flags.DEFINE_enum("precision", None, PRECISIONS, "Of a translator; without: float32.")
    flags.DEFINE_string("output", None, "File to write the metrics to (.json), or - for JSON on "
                        "the terminal.")
    define_reading_flags(["tsv", "csv", "jsonl", "parquet", "label_text", "quoted_tsv"])
    flags.DEFINE_string("label_column", None, "Column of the label, likewise.")


def main():
    from keras_attn.inference.outputs import opened
    from keras_attn.io.json_files import to_json

    values = flags.FLAGS
    output = opened(values.output, (".json",), workdir=values.workdir, inputs=(
        values.data, values.source, values.target)) if values.output else contextlib.nullcontext()
    with output as file:
        found = _evaluate(values)
        if file:
            file.write(to_json(found, indent=2) + "\n")
    if values.output != "-":
        print("\n".join(_told(found)))


def _told(found):
    """Lines of numbers with how sure they are, and of classes."""
    from keras_attn.tasks.classification.report_numbers import told_classes
    from keras_attn.tasks.finetuning.seed_statistics import metrics_among, told_over_seeds

    runs = found.get("runs")
    if runs:
        for run in runs:
            told = (f"{name} {value:.4f}" for name, value in metrics_among(run).items())
            yield f"{run['run']}: {' · '.join(told)}"
        yield from told_over_seeds(found, metrics_among(found), len(runs))
        for name in ("examples", "skipped"):
            if name in found:
                yield f"{name} {found[name]:,}"
    else:
        for name, value in found.items():
            if isinstance(value, (str, int, float)):
                kind = {int: ",", float: ".4f"}.get(type(value), "")
                low, high = found.get(f"{name}_range", (None, None))
                spread = "" if low is None else (
                    f" (95 %: {low:.4f} to {high:.4f}, by other rows like these)")
                yield f"{name:20} {value:{kind}}{spread}"
    yield from told_classes(found)


def _evaluate(values):
    from keras_attn.errors import UserError
    from keras_attn.inference.evaluate import evaluate
    from keras_attn.inference.loading import task_of_workdir
    from keras_attn.registry import TASKS

    task = task_of_workdir(values.workdir) or TASKS["classification"]
    options = {name: values[flag].value for name, flag in OPTIONS.items()}
    wrong = [OPTIONS[name] for name, value in options.items()
             if value is not None and name not in (task.evaluates, *task.evaluation_flags)]
    if options[task.evaluates] is None or wrong:
        without = f", without {' and '.join(f'--{flag}' for flag in wrong)}" if wrong else ""
        given = ", ".join(f"{flag}={options[name]}" for name, flag in OPTIONS.items())
        raise UserError(f"--{OPTIONS[task.evaluates]} is needed{without}: {values.workdir} holds a "
                        f"model for {task.name}. Received: {given}")
    return evaluate(values.workdir, options.pop(task.evaluates), values.batch_size,
                    format=values.format, text=values.text_column,
                    text_pair=values.text_pair_column, on_bad_text=values.on_bad_text,
                    encoding=values.encoding, max_line=values.max_line,
                    **{name: value for name, value in options.items() if value is not None})


def command():
    """Entry point of `python -m finetune.evaluate` and `keras-attn-evaluate`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
