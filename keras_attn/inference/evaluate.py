"""Evaluation of a finetuned model on other data."""

import posixpath

from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import load
from keras_attn.inference.options import check_options
from keras_attn.registry import TASKS
from keras_attn.runs.sweep import seeds_of
from keras_attn.tasks.finetuning.seed_statistics import metrics_among, over_seeds


def evaluate(
    workdir,
    data,
    batch_size=64,
    *,
    format=None,
    text=None,
    text_pair=None,
    on_bad_text=None,
    encoding=None,
    max_line=None,
    precision=None,
    **options,
):
    """Evaluates a finetuned model.

    Args:
        workdir: Working directory of a finetuning run; if it contains several seeds, each of them
            is evaluated.
        data: Evaluation data of the task; for classification a TSV, CSV, JSONL or Parquet file, a
            glob, or tfds:NAME[:SPLIT] (the validation split by default).
        batch_size: Batch size in rows, which does not change the results.
        format, text, text_pair, on_bad_text, encoding, max_line: See `iterate_rows`. None: as in
            training.
        precision: See `keras_attn.load`.
        **options: Options of the task; see `TaskFields.options`. Classification: `label` and
            `group`; translation: `target`, `beam` and `length_penalty`.

    Returns:
        Dict of the metrics of the task, `examples` and `skipped`. For several seeds: the results
        of `over_seeds` and `Task.combine`, `examples`, `skipped`, and `runs`, a list with `run`,
        `seed` and metrics.

    Raises:
        UserError: If there are no rows, or a label does not occur in the training data.
    """
    reading = {
        "format": format,
        "text": text,
        "text_pair": text_pair,
        "on_bad_text": on_bad_text,
        "encoding": encoding,
        "max_line": max_line,
    }
    return measure(workdir, data, batch_size, reading, precision, options)[1]


def measure(workdir, data, batch_size, reading, precision, options):
    """Evaluates a finetuned model; see `evaluate`.

    Args:
        workdir, data, batch_size, precision: See `evaluate`.
        reading: Dict with `format`, `text`, `text_pair`, `on_bad_text`, `encoding` and `max_line`.
        options: Dict with the options of the task.

    Returns:
        `(task, results)`: the `Task` of the model, and the result of `evaluate`.
    """

    def measured(folder):
        model = load(folder, precision=precision or "float32")
        given = check_options(model.task, "evaluate", options, reading["format"])
        task = TASKS[model.task]
        found = task.evaluate(model, data, batch_size, reading, given)
        warn_of_cut_texts(model)
        return task, found

    seeds = seeds_of(workdir)
    if len(seeds) < 2:
        return measured(workdir)
    measurements = [measured(posixpath.join(workdir, run["run"])) for run in seeds]
    task, each = measurements[0][0], [found for _, found in measurements]
    runs = [
        {"run": run["run"], "seed": run["seed"], **metrics_among(found)}
        for run, found in zip(seeds, each, strict=True)
    ]
    return task, {
        **over_seeds(runs, metrics_among(each[0])),
        **task.combine(each),
        **{name: each[0][name] for name in ("examples", "skipped") if name in each[0]},
        "runs": runs,
    }
