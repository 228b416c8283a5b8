"""Prediction of files with classifiers, row by row."""

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
LOCATION = ("file", "line")  # columns of the output if rows may be skipped
_OWN = ("label", "labels", "probabilities", "value", *LOCATION)  # other columns of the output


def predict_texts(predictor, texts, text_pairs, file, output):
    """Writes a row for each text; see `Task.predict_texts`."""
    predictions = predictor.predict(texts, text_pairs or None)
    _write_header(file, predictor, output)
    _write(file, predictions, predictor, output)


def predict_file(predictor, source, file, output, batch_size, reading, keep=()):
    """Writes a row for each row of a file, in constant memory; see `Task.predict_file`.

    With `on_bad_text="skip"` rows that cannot be read are skipped and counted, and each row of the
    output begins with its file and line. The columns `keep` of the input are next.
    """
    given = {**reading, "keep": keep}
    tables = rows_of_files(predictor, source, given.pop("format"), given)
    iterator = itertools.chain.from_iterable(tables)
    first = list(itertools.islice(iterator, CHUNK))  # errors come before any output
    skips = (given["on_bad_text"] or predictor.config["data"]["on_bad_text"]) == "skip"
    taken = {*_OWN, *(predictor.labels or ())}
    names = [*(LOCATION if skips else ()), *(f"input_{n}" if n in taken else n for n in keep)]
    _write_header(file, predictor, output, names)
    chunk, count = first, 0
    while chunk:
        predictions = predictor.predict(*texts_of(chunk), batch_size)
        copied = [((display_name(row.file), row.line) if skips else ()) + row.kept for row in chunk]
        _write(file, predictions, predictor, output, names, copied)
        count += len(chunk)
        chunk = list(itertools.islice(iterator, CHUNK))
    for rows in tables:
        for place in rows.skipped_places:
            print(f"skipped {place}", file=sys.stderr)
        unnamed = sum(rows.skipped.values()) - rows.skipped[EMPTY.reason] - len(rows.skipped_places)
        if unnamed:
            print(f"skipped {unnamed:,} more", file=sys.stderr)
    skipped = sum((rows.skipped for rows in tables), Counter())
    print(f"{counted(count, 'row')} predicted, {format_counts(skipped)}", file=sys.stderr)


def texts_of(rows):
    """Returns the texts, and the second texts or None, of rows of `iterate_rows`."""
    paired = rows[0].text_pair is not None
    return [row.text for row in rows], [row.text_pair for row in rows] if paired else None


def rows_of_files(predictor, source, format, given):
    """Returns the rows of each file: iterables that count skipped rows.

    Args:
        predictor: `Predictor`.
        source: A file, a glob, a list of them, or `tfds:NAME`.
        format: See `iterate_rows`; None: detected from the file name.
        given: Further arguments of `iterate_rows`; a value None: as in training. Labels are read
            if it has `label`.
    """
    data = predictor.config["data"]
    if predictor.pairs and (format or _format(data, source)) == "lines":
        raise UserError(
            "This model takes pairs of texts. Use a file with two text columns: TSV, CSV, JSONL "
            f"or Parquet. Received: {source}"
        )
    if given["text_pair"] is not None and predictor.pairs is False:
        raise UserError(
            "This model takes single texts. Leave text_pair out. "
            f"Received: text_pair={given['text_pair']}"
        )
    return [
        iterate_rows(name, **_reading(data, name, format or _format(data, name), given))
        for name in find_files(source, tfds=True)
    ]


def _reading(data, name, format, given):
    """Returns the arguments of `iterate_rows` for a file; by default those of the training data."""
    names = [name for name in ("text", "text_pair", "label", "group") if name in given]
    columns = {name: data.get(name) for name in names}
    if task := glue.glue_task(data["task"]):
        table = not name.startswith("tfds:")
        header = (
            header_names(
                name,
                format,
                given["encoding"] or data["encoding"],
                given["max_line"] or data.get("max_line"),
            )
            if table
            else ()
        )
        known = task.columns(name, header)
        columns = {column: value or known.get(column) for column, value in columns.items()}
    if columns["text"] is None or format in ("lines", "label_text"):
        columns["text"] = "text"
        if format in ("lines", "label_text") and "label" in columns:
            columns["label"] = "label"
    reading = {**columns, "on_bad_text": data["on_bad_text"]}
    reading.update((key, value) for key, value in given.items() if value is not None)
    # Files with named columns have a header; data.header=False applies to column indices.
    trained = (data.get(column) for column in ("text", "text_pair", "label", "group"))
    named = any(column and not str(column).isdigit() for column in trained)
    header = data["header"] or (named and given["text"] is None) or None
    reading.setdefault("encoding", data["encoding"])
    reading.setdefault("max_line", data.get("max_line"))
    if "label" in reading and reading["label"] is None:
        reading["label"] = "label"
    return {**reading, "format": format, "header": header}


def _format(data, name):
    """Returns the format of a file: of training files with its extension, else by its name, else
    that of the training files.
    """
    trained = data["format"]
    if trained and _extension(name) == _extension(data["train"] or ""):
        return trained
    return format_from_name(name) or trained or format_from_name(data["train"] or "")


def _extension(name):
    return os.path.splitext(name.lower().removesuffix(".gz"))[1]


def _is_json(output):
    return output.endswith(".jsonl")


def _table(file, output):
    if output.endswith(".csv"):
        return csv.writer(file, lineterminator="\n")
    # Quotes are ordinary characters in TSV, as in GLUE.
    return csv.writer(
        file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n"
    )


def _write_header(file, predictor, output, copied=()):
    if not _is_json(output):
        columns = ["label", *predictor.labels] if predictor.labels else ["value"]
        try:
            _table(file, output).writerow([*copied, *columns])
        except csv.Error:
            raise _unquotable("Labels", output) from None


def _write(file, predictions, predictor, output, names=(), copied=None):
    """Writes JSONL, CSV or TSV by the extension of the output.

    Args:
        file: The open output.
        predictions: Predictions of a `Predictor`.
        predictor: The `Predictor`.
        output: Name of the output.
        names: Names of the first columns.
        copied: Values of the first columns of each row.
    """
    copied = copied or [()] * len(predictions)
    if _is_json(output):
        file.write(
            "".join(
                json.dumps({**dict(zip(names, values, strict=True)), **row}, ensure_ascii=False)
                + "\n"
                for values, row in zip(copied, predictions, strict=True)
            )
        )
        return
    table = _table(file, output)
    try:
        for values, row in zip(copied, predictions, strict=True):
            table.writerow([*values, *_cells(row, predictor)])
    except csv.Error:
        raise _unquotable("Columns", output) from None


def _unquotable(what, output):
    return UserError(
        f"{what} with tabs or line breaks require an --output that ends in .csv or .jsonl. "
        f"Received: {output}"
    )


def _cells(row, predictor):
    if predictor.kind == "regression":
        return [f"{row['value']:.7g}"]
    label = row["label"] if "label" in row else predictor.label_separator.join(row["labels"])
    return [label, *(f"{row['probabilities'][name]:.6f}" for name in predictor.labels)]
