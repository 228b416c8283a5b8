"""Files of records: tables of text, and JSON and Parquet, whose values have types."""

import itertools
import json
import math
import re

import tensorflow as tf

from keras_attn.data.streams import shown
from keras_attn.data.table_formats import (
    EMPTY,
    UNDECODABLE,
    BadRow,
    Lines,
    RawFile,
    delimited_rows,
    exceeds,
    refuse_column,
    too_long,
)
from keras_attn.errors import UserError, first_line

_BLANKS = re.compile(r"[ \t\r\n]*").match
_BLOCK = 1 << 16  # characters of a list of JSON that are read at once


def file_rows(path, format, columns, encoding="utf-8", header=None, max_line=None):
    """Yields the rows of a file: `(number, values or a BadRow)`.

    Args:
        path: The file.
        format: One of `FORMATS`.
        columns: Names or numbers of the columns.
        encoding, header, max_line: As in `tables.iterate_rows`.

    Raises:
        UserError: For an empty file, a missing column, or a file that cannot be read.
    """
    lines = Lines(path, encoding, max_line)
    if format == "parquet":
        yield from parquet_rows(columns, path, lines.max_line)
        return
    if format == "jsonl":
        yield from json_rows(lines, columns, shown(path))
    else:
        yield from delimited_rows(lines, format, columns, header, shown(path))
    if not lines.count:
        raise UserError(f"A file with rows is needed. Received: the empty file {shown(path)}")


def json_rows(lines, columns, path):
    """Yields the rows of a file of one JSON object a line, or of a list of objects.

    Args:
        lines: `Lines` of the file.
        columns: Keys of the objects.
        path: The file, for messages.

    Yields:
        `(number, values)`, the line or the number in the list and the values as JSON has them,
        or a `BadRow` in place of the values.
    """
    keys, known = [str(column) for column in columns], set()
    for number, record in _json_records(lines, path):
        if isinstance(record, BadRow):
            yield number, record
            continue
        if not isinstance(record, dict):
            yield number, BadRow("json", "One JSON object a line, or a list of objects, is needed")
            continue
        missing = [key for key in keys if key not in record]
        if missing and missing[0] not in known:  # a wrong name, not a wrong row
            refuse_column(missing[0], list(record), f"{path}, line {number}")
        known.update(record.keys() & set(keys))
        if missing:
            found = ", ".join(record) or "none"
            yield number, BadRow("fields", f"The field {missing[0]!r} is needed, not {found}")
        else:
            yield number, [record[key] for key in keys]


def is_json_list(lines):
    """Whether a file holds a list of JSON, not an object a line."""
    first = next((piece for piece in lines.pieces() if piece.strip()), "")
    return first.lstrip().startswith("[")


def _json_records(lines, path):
    """Yields (line, or number in the list, and what is there or a BadRow)."""
    pieces, blank = lines.pieces(), []
    for piece in pieces:
        blank.append(piece)
        if piece.strip():
            break
    pieces = itertools.chain(blank, pieces)
    if blank and blank[-1].lstrip().startswith("["):
        yield from enumerate(_list_elements(pieces, path, lines.max_line), 1)
        lines.count = lines.count or 1
        return
    for number, line in enumerate(lines.join(pieces), 1):
        if isinstance(line, BadRow):
            yield number, line
        elif not line.strip():
            yield number, EMPTY
        else:
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:  # nested too deeply
                yield number, BadRow("json", f"One JSON object a line is needed ({error})")


def _list_elements(pieces, path, most):
    """Yields the elements of a list of JSON, holding one of them at a time."""
    text, at, number, decode = "", 0, 0, json.JSONDecoder().raw_decode

    def fail(error):
        raise UserError("One JSON object a line, or a whole list of them, is needed. Received: "
                        f"{path}, where the list ends or breaks off after element {number:,} "
                        f"({error})") from None

    def read():
        """Doubles what is held, so that a long element is not parsed at every piece."""
        nonlocal text, at
        wanted, held = max(_BLOCK, len(text) - at), [text[at:]]
        while wanted > 0 and (piece := next(pieces, "")):
            held.append(piece)
            wanted -= len(piece)
        text, at = "".join(held), 0
        return len(held) > 1

    def sign():
        """The next character that is not blank; "" at the end."""
        nonlocal at
        while True:
            at = _BLANKS(text, at).end()
            if at < len(text) or not read():
                return text[at:at + 1]

    sign()
    at += 1  # the bracket
    while (found := sign()) != "]":
        if number:
            if found != ",":
                fail("a comma is needed")
            at += 1
            sign()
        error, end = None, len(text)
        while end == len(text):  # an element that ends there could go on: a number
            try:
                element, end = decode(text, at)
            except (ValueError, RecursionError) as caught:
                error, end = caught, len(text)
            if exceeds(text[at:end], most):
                raise UserError(f"{too_long(most, 'record').need}. "
                                f"Received: {path}, row {number + 1}")
            if end == len(text):
                if not read():
                    fail(error or "its bracket is not closed")
                end = len(text)
        number, at = number + 1, end
        yield element
    at += 1
    if sign():
        fail("something follows the list")


def parquet_rows(columns, path, most):
    """Yields the rows of a Parquet file, as `json_rows` does.

    Args:
        columns: Names.
        path: The file.
        most: Bytes of the longest value.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:  # none, or one that is too new for this NumPy
        raise UserError(
            f"Parquet needs pyarrow (pip install pyarrow). Received: {path} ({first_line(error)})"
        ) from error

    keys, count, name = [str(column) for column in columns], 0, shown(path)
    try:
        with RawFile(path) as file:
            # Else it reads all groups of rows ahead, or the whole of one.
            table = ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            names = table.schema_arrow.names
            for key in keys:
                if key not in names:
                    refuse_column(key, names, name)
            for batch in table.iter_batches(batch_size=1024, columns=keys):
                for record in batch.to_pylist():
                    count += 1
                    values = [record[key] for key in keys]
                    long = any(isinstance(v, str) and exceeds(v, most) for v in values)
                    yield count, too_long(most, "value") if long else values
    except (ArrowException, OSError, UnicodeDecodeError, tf.errors.OpError) as error:
        reason = first_line(error)
        raise UserError(
            f"A readable Parquet file is needed. Received: {name} ({reason})") from error
    if not count:
        raise UserError(f"A file with rows is needed. Received: {name}")


def as_text(value):
    """A value of a record as the text that a table would hold."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", UNDECODABLE)
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # a decimal or a date alone is no text with quotes
        inside = isinstance(value, (list, tuple, dict))
        return json.dumps(value, ensure_ascii=False, default=_plain) if inside else str(value)


def as_label(value):
    """A value of a record as a label: numbers that are equal become the same text.

    A missing label, one that is not a number and an infinite one become "".
    """
    if isinstance(value, (list, tuple)):
        parts = [as_label(part) or None if isinstance(part, float) else part for part in value]
        return json.dumps(parts, ensure_ascii=False, default=_plain)
    if isinstance(value, float):
        if not math.isfinite(value):
            return ""
        if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
    return as_text(value)


def _plain(value):
    """What JSON cannot say: bytes of a list, dates."""
    return as_text(value) if isinstance(value, bytes) else str(value)
