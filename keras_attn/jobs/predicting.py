"""Predicting: texts in, labels and probabilities out, in the same order."""

import contextlib
import csv
import itertools
import json
import sys

import tensorflow as tf

from keras_attn.data import glue
from keras_attn.data.tables import iterate_rows
from keras_attn.errors import UserError
from keras_attn.jobs.loading import Predictor
from keras_attn.whole_files import whole

CHUNK = 4096  # rows held in memory


def predict_texts(workdir, texts, text_pairs=None, output="-"):
    """Writes a row for each text."""
    if not texts:
        raise UserError("--text or --input is needed. Received: neither")
    if text_pairs and len(text_pairs) != len(texts):
        raise UserError("As many --text_pair as --text are needed. "
                        f"Received: {len(texts)} texts, {len(text_pairs)} pairs")
    predictor = Predictor(workdir)
    predictions = predictor.predict(texts, text_pairs or None)
    with _opened(output) as file:
        _write_head(file, predictor.labels, output)
        _write(file, predictions, predictor.labels, output)


def predict_file(workdir, source, output="-", batch_size=64):
    """Writes a row for each row of a file, in constant memory.

    Only rows that cannot be read have none, if the model was trained with
    `data.on_bad_text=skip`; they are counted.

    Args:
        workdir: Folder of a finetuning run.
        source: TSV, CSV, JSONL or .txt file, or a glob, with the columns the
            model was trained on.
        output: File; `-` for standard output.
        batch_size: Rows worked on together.
    """
    predictor = Predictor(workdir)
    rows = iterate_rows(source, **_columns(predictor, source))
    iterator = iter(rows)
    first = list(itertools.islice(iterator, CHUNK))  # errors come before the output is made
    with _opened(output) as file:
        _write_head(file, predictor.labels, output)
        chunk, count = first, 0
        while chunk:
            pairs = [row.text_pair for row in chunk] if predictor.pairs else None
            predictions = predictor.predict([row.text for row in chunk], pairs, batch_size)
            _write(file, predictions, predictor.labels, output)
            count += len(chunk)
            chunk = list(itertools.islice(iterator, CHUNK))
    skipped = sum(rows.skipped.values())
    print(f"{count:,} rows predicted, {skipped:,} skipped", file=sys.stderr)


def _columns(predictor, source):
    data = predictor.config["data"]
    columns = {"text": data["text"], "text_pair": data["text_pair"]}
    if data["task"]:
        known = glue.task(data["task"]).columns(source)
        columns = {name: value or known[name] for name, value in columns.items()}
    if source.endswith((".txt", ".txt.gz")) or columns["text"] is None:
        if predictor.pairs:
            raise UserError("A file with two columns is needed by a model of pairs: TSV, CSV or "
                            f"JSONL. Received: {source}")
        columns = {"text": "text", "text_pair": None}
    return {**columns, "encoding": data["encoding"], "on_bad_text": data["on_bad_text"],
            "header": data["header"]}


@contextlib.contextmanager
def _opened(output):
    if output == "-":
        yield sys.stdout
        return
    with whole(output) as temporary, tf.io.gfile.GFile(temporary, "w") as file:
        yield file


def _is_json(output):
    return output.endswith((".jsonl", ".json"))


def _table(file, output):
    if output.endswith(".csv"):
        return csv.writer(file, lineterminator="\n")
    # As TSV is read, here and in GLUE: quotes are ordinary characters.
    return csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None,
                      lineterminator="\n")


def _write_head(file, labels, output):
    file.write("")  # makes the file, even for no row
    if not _is_json(output):
        try:
            _table(file, output).writerow(["label", *labels] if labels else ["value"])
        except csv.Error:
            raise UserError("Labels that hold a tab or line break need an --output that ends in "
                            f".csv or .jsonl. Received: {output}") from None


def _write(file, predictions, labels, output):
    """Writes JSONL, CSV or TSV, as the name of the output says."""
    if _is_json(output):
        file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in predictions))
        return
    table = _table(file, output)
    for row in predictions:
        shares = [f"{row['probabilities'][name]:.6f}" for name in labels]
        table.writerow([row["label"], *shares] if labels else [f"{row['value']:.6f}"])
