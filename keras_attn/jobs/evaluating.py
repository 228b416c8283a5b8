"""Evaluating a finetuned workdir on other labelled rows."""

import itertools

import numpy as np

from keras_attn.data import glue
from keras_attn.data.classification import LabelSet, encode_scores
from keras_attn.data.tables import place
from keras_attn.errors import UserError
from keras_attn.jobs.answering import check_no_table, evaluate_answers
from keras_attn.jobs.loading import Answerer, load_predictor
from keras_attn.jobs.predicting import CHUNK, rows_of_files, texts_of
from keras_attn.training.metrics import classification_metrics


def evaluate(workdir, data, batch_size=64, *, format=None, text=None, text_pair=None, label=None,
             on_bad_text=None):
    """Measures a finetuned model on labelled rows, in float32.

    Args:
        workdir: Folder of a finetuning run.
        data: Labelled rows: TSV, CSV or JSONL file, a glob, or tfds:NAME[:SPLIT], its
            validation without a split.
        batch_size: Rows worked on together; the results do not depend on it.
        format, text, text_pair, label, on_bad_text: See `iterate_rows`. None: as in training.

    Returns:
        Dict of the metrics of the task, `loss`, `examples`, and `skipped`; of a model that reads
        what `evaluate_answers` returns.

    Raises:
        UserError: If there are no rows, or a label is not one of training.
    """
    predictor = load_predictor(workdir)
    if isinstance(predictor, Answerer):
        check_no_table({"format": format, "text": text, "text_pair": text_pair, "label": label})
        return evaluate_answers(predictor, data, batch_size, on_bad_text)
    asked = {"text": text, "text_pair": text_pair, "label": label, "on_bad_text": on_bad_text,
             "split": "validation"}
    tables = rows_of_files(predictor, data, format, asked)
    rows = itertools.chain.from_iterable(tables)
    task = predictor.config["data"]["task"] and glue.task(predictor.config["data"]["task"])
    known = predictor.labels and (task.label_set() if task else LabelSet(predictor.labels))
    labels, logits = [], []
    while chunk := list(itertools.islice(rows, CHUNK)):
        labels.append(_encoded(known, chunk))
        logits.append(predictor.logits(*texts_of(chunk), batch_size))
    if not labels:
        raise UserError(f"At least one row is needed. Received: {data}")
    labels, logits = np.concatenate(labels), np.concatenate(logits)
    metrics = classification_metrics(labels, logits, task and task.metrics,
                                     regression=not predictor.labels)
    return {**metrics, "loss": _loss(labels, logits, regression=not predictor.labels),
            "examples": len(labels), "skipped": sum(sum(t.skipped.values()) for t in tables)}


def _encoded(known, rows):
    """Class indices or numbers, by the `LabelSet` or without one."""
    encode = known.encode if known else encode_scores
    return encode([row.label for row in rows],
                  lambda number: place(rows[number].file, rows[number].line))


def _loss(labels, logits, regression):
    """Mean cross-entropy, or squared error."""
    if regression:
        return float(np.mean((logits[:, 0] - labels) ** 2))
    most = logits.max(axis=1)
    sums = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return float(np.mean(sums - logits[np.arange(len(labels)), labels]))
