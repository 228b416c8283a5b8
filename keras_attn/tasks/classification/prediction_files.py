"""Predictions of classifiers: rows of files in, labels and probabilities out, in the same order."""

import csv
import itertools
import json
import os
import sys
from collections import Counter

from keras_attn.counts import counted
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import EMPTY, format_from_name, header_names
from keras_attn.data.sources.tables import format_counts, iterate_rows
from keras_attn.errors import UserError
from keras_attn.tasks.classification import glue

CHUNK = 4096  # rows held in memory
PLACE = ("file", "line")  # of a row, where rows may be missing


def predict_texts(predictor, texts, text_pairs, file, output):
    """Writes a row for each text; arguments as those of `Task.predict_texts`."""
    _check_output(output)
    predictions = predictor.predict(texts, text_pairs or None)
    _write_head(file, predictor, output)
    _write(file, predictions, predictor, output)


def predict_file(predictor, source, file, output, batch_size, reading):
    """Writes a row for each row of a file, in constant memory.

    Rows that cannot be read are an error, or with `on_bad_text="skip"` have none and are counted;
    then every row begins with the file and line that it is of. Arguments as those of
    `Task.predict_file`.
    """
    _check_output(output)
    asked = dict(reading)
    tables = rows_of_files(predictor, source, asked.pop("format"), asked)
    iterator = itertools.chain.from_iterable(tables)
    first = list(itertools.islice(iterator, CHUNK))  # errors come before any output
    placed = (asked["on_bad_text"] or predictor.config["data"]["on_bad_text"]) == "skip"
    _write_head(file, predictor, output, placed)
    chunk, count = first, 0
    while chunk:
        predictions = predictor.predict(*texts_of(chunk), batch_size)
        _write(file, predictions, predictor, output, chunk if placed else None)
        count += len(chunk)
        chunk = list(itertools.islice(iterator, CHUNK))
    for rows in tables:
        for place in rows.skipped_places:
            print(f"skipped {place}", file=sys.stderr)
        unnamed = sum(rows.skipped.values()) - rows.skipped[EMPTY.reason] - len(rows.skipped_places)
        if unnamed:
            print(f"skipped {unnamed:,} more", file=sys.stderr)
    skipped = sum((rows.skipped for rows in tables), Counter())
    print(f"{counted(count, 'row')} predicted, {format_counts(skipped)} skipped", file=sys.stderr)


def texts_of(rows):
    """Texts and second texts, or None, of rows of `iterate_rows`."""
    paired = rows[0].text_pair is not None
    return [row.text for row in rows], [row.text_pair for row in rows] if paired else None


def rows_of_files(predictor, source, format, asked):
    """Returns the rows of each file, iterables that count what they skip.

    Args:
        predictor: `Predictor`.
        source: A file, a glob, a list of them, or `tfds:NAME`.
        format: See `iterate_rows`; None: what the name of a file tells.
        asked: Further arguments of `iterate_rows`; None: as in training. Labels are read if it
            has `label`.
    """
    data = predictor.config["data"]
    if predictor.pairs and (format or _format(data, source)) == "lines":
        raise UserError(
            "A file with two columns is needed by a model of pairs: TSV, CSV, "
            f"JSONL or Parquet. Received: {source}"
        )
    if asked["text_pair"] is not None and predictor.pairs is False:
        raise UserError(
            "This model takes single texts, without a column of second texts. "
            f"Received: text_pair={asked['text_pair']}"
        )
    return [
        iterate_rows(name, **_reading(data, name, format or _format(data, name), asked))
        for name in find_files(source, tfds=True)
    ]


def _reading(data, name, format, asked):
    """How to read a file: as asked for, else as the model's training data were read."""
    names = [name for name in ("text", "text_pair", "label") if name in asked]
    columns = {name: data[name] for name in names}
    if task := glue.task_of(data["task"]):
        table = not name.startswith("tfds:")
        header = (
            header_names(
                name,
                format,
                asked["encoding"] or data["encoding"],
                asked["max_line"] or data.get("max_line"),
            )
            if table
            else ()
        )
        known = task.columns(name, header)
        columns = {column: value or known[column] for column, value in columns.items()}
    if columns["text"] is None or format in ("lines", "label_text"):
        columns["text"] = "text"
        if format in ("lines", "label_text") and "label" in columns:
            columns["label"] = "label"
    reading = {**columns, "on_bad_text": data["on_bad_text"]}
    reading.update((key, value) for key, value in asked.items() if value is not None)
    # Files of named columns have a header. That there is none was said of numbered ones.
    trained = (data[column] for column in ("text", "text_pair", "label"))
    named = any(column and not str(column).isdigit() for column in trained)
    header = data["header"] or (named and asked["text"] is None) or None
    reading.setdefault("encoding", data["encoding"])
    reading.setdefault("max_line", data.get("max_line"))
    if "label" in reading and reading["label"] is None:
        reading["label"] = "label"
    return {**reading, "format": format, "header": header}


def _format(data, name):
    """What the ending of a name meant in training, or means, or the format of the training data."""
    trained = data["format"]
    if trained and _ending(name) == _ending(data["train"] or ""):
        return trained
    return format_from_name(name) or trained


def _ending(name):
    return os.path.splitext(name.lower().removesuffix(".gz"))[1]


def _check_output(output):
    if output.endswith(".json"):
        raise UserError(f"--output must end in .jsonl: a row is an object. Received: {output}")


def _is_json(output):
    return output.endswith(".jsonl")


def _table(file, output):
    if output.endswith(".csv"):
        return csv.writer(file, lineterminator="\n")
    # As TSV is read, here and in GLUE: quotes are ordinary characters.
    return csv.writer(
        file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
    )


def _write_head(file, predictor, output, placed=False):
    if not _is_json(output):
        heads = ["label", *predictor.labels] if predictor.labels else ["value"]
        try:
            _table(file, output).writerow([*(PLACE if placed else ()), *heads])
        except csv.Error:
            raise UserError(
                "Labels that hold a tab or line break need an --output that ends in "
                f".csv or .jsonl. Received: {output}"
            ) from None


def _write(file, predictions, predictor, output, rows=None):
    """Writes JSONL, CSV or TSV, as the name of the output says; of `rows`, where they are."""
    places = [
        dict(zip(PLACE, (display_name(row.file), row.line), strict=True)) for row in rows or ()
    ]
    places = places or [{}] * len(predictions)
    if _is_json(output):
        file.write(
            "".join(
                json.dumps({**place, **row}, ensure_ascii=False) + "\n"
                for place, row in zip(places, predictions, strict=True)
            )
        )
        return
    table = _table(file, output)
    for place, row in zip(places, predictions, strict=True):
        table.writerow([*place.values(), *_cells(row, predictor)])


def _cells(row, predictor):
    if predictor.kind == "regression":
        return [f"{row['value']:.7g}"]
    label = row["label"] if "label" in row else predictor.label_separator.join(row["labels"])
    return [label, *(f"{row['probabilities'][name]:.6f}" for name in predictor.labels)]
