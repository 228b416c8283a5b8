"""Classifiers on other labeled rows."""

import itertools

import numpy as np

from keras_attn.data.sources.tables import describe_location
from keras_attn.errors import UserError
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.labels import LabelSet, encode_labels
from keras_attn.tasks.classification.metrics import metric_names, task_metrics
from keras_attn.tasks.classification.prediction_files import CHUNK, rows_of_files, texts_of
from keras_attn.tasks.classification.report_numbers import details


def evaluate(predictor, data, batch_size, reading):
    """Measures a classifier on labeled rows, in float32.

    Args:
        predictor: `Predictor`.
        data: Labeled rows: TSV, CSV, JSONL or Parquet file, a glob, or tfds:NAME[:SPLIT].
        batch_size: Rows worked on together; the results do not depend on it.
        reading: Dict of how to read them; see `iterate_rows`. None: as in training.

    Returns:
        Dict of the metrics of the task, `loss`, `examples`, `skipped` and what `details` tells.
    """
    asked = {**reading, "split": "validation"}
    format = asked.pop("format")
    if predictor.kind == "multilabel":
        asked["unlabelled"] = True
    tables = rows_of_files(predictor, data, format, asked)
    rows = itertools.chain.from_iterable(tables)
    task = glue.task_of(predictor.config["data"]["task"])
    known = predictor.labels and (task.label_set() if task else LabelSet(predictor.labels))
    labels, shares = [], []
    while chunk := list(itertools.islice(rows, CHUNK)):
        labels.append(
            encode_labels(
                [row.label for row in chunk],
                known,
                predictor.kind,
                predictor.label_separator,
                _places(chunk),
            )
        )
        shares.append(predictor.probabilities(*texts_of(chunk), batch_size))
    if not labels:
        raise UserError(f"At least one row is needed. Received: {data}")
    labels, shares = np.concatenate(labels), np.concatenate(shares)
    names = metric_names(
        predictor.kind,
        len(predictor.labels),
        task and task.metrics,
        predictor.config.get("eval", {}).get("metric"),
    )
    return {
        **task_metrics(labels, shares, predictor.kind, names, predictor.label_deviation),
        "examples": len(labels),
        "skipped": sum(sum(t.skipped.values()) for t in tables),
        **details(predictor.labels, labels, shares, predictor.kind),
    }


def _places(rows):
    """Function from a row's number to where it is."""
    return lambda number: describe_location(rows[number].file, rows[number].line)
