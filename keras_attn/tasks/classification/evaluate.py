"""Evaluation of classifiers on labeled rows."""

import functools
import itertools

import numpy as np

from keras_attn.data.sources.tables import describe_location
from keras_attn.errors import UserError
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.labels import LabelSet, encode_labels
from keras_attn.tasks.classification.metrics import group_metrics, metric_names, task_metrics
from keras_attn.tasks.classification.prediction_files import CHUNK, rows_of_files, texts_of
from keras_attn.tasks.classification.report_numbers import class_details
from keras_attn.tasks.classification.splits import check_groups, check_ranking


def evaluate(predictor, data, batch_size, reading):
    """Evaluates a classifier on labeled rows.

    Args:
        predictor: `Predictor`.
        data: TSV, CSV, JSONL or Parquet file, a glob, or tfds:NAME[:SPLIT].
        batch_size: Batch size; the results do not depend on it.
        reading: Arguments of `iterate_rows`; a value None: as in training.

    Returns:
        Dict of the metrics of the task, `loss`, `examples`, `skipped` and the entries of
        `class_details`.
    """
    asked = {**reading, "split": "validation"}
    format, group = asked.pop("format"), asked["group"]
    group = predictor.config["data"].get("group") if group is None else group
    task = glue.glue_task(predictor.config["data"]["task"])
    if group is not None:
        kind = task.name if task else predictor.kind
        check_ranking(kind, predictor.labels, f"--group_column={group}")
    if predictor.kind == "multilabel":
        asked["unlabelled"] = True
    tables = rows_of_files(predictor, data, format, asked)
    rows = itertools.chain.from_iterable(tables)
    known = predictor.labels and (task.label_set() if task else LabelSet(predictor.labels))
    labels, predicted, groups, places = [], [], [], []
    while chunk := list(itertools.islice(rows, CHUNK)):
        labels.append(
            encode_labels(
                [row.label for row in chunk],
                known,
                predictor.kind,
                predictor.label_separator,
                functools.partial(_location, chunk),
            )
        )
        predicted.append(predictor.probabilities(*texts_of(chunk), batch_size))
        if group is not None:
            groups.extend(row.group for row in chunk)
            places.extend((row.file, row.line) for row in chunk)
    if not labels:
        raise UserError(f"Evaluation requires at least one row. Received: data={data}")
    labels, predicted = np.concatenate(labels), np.concatenate(predicted)
    names = metric_names(
        predictor.kind,
        len(predictor.labels),
        task and task.metrics,
        predictor.config.get("eval", {}).get("metric"),
    )
    ranking = {}
    if group is not None:
        positive = predictor.labels[1]
        check_groups(groups, labels, positive, lambda row: describe_location(*places[row]))
        ranking = group_metrics(groups, labels, predicted)
    return {
        **ranking,
        **task_metrics(labels, predicted, predictor.kind, names, predictor.label_deviation),
        "examples": len(labels),
        "skipped": sum(sum(t.skipped.values()) for t in tables),
        **class_details(predictor.labels, labels, predicted, predictor.kind),
    }


def _location(rows, number):
    return describe_location(rows[number].file, rows[number].line)
