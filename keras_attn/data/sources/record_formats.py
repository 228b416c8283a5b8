"""Files of records: tables of text, and JSON and Parquet, whose values have types."""

import itertools
import json
import math
import re

import tensorflow as tf

from keras_attn.data.sources.streams import shown
from keras_attn.data.sources.table_formats import (
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
_LONGEST_WORD = 16  # characters; the end of what is read may cut -Infinity or \uXXXX
# What begins or ends a part of JSON, within a string and elsewhere; an escape as a whole.
_IN_STRING = re.compile(r'"|\\.|\\', re.DOTALL)
_OUTSIDE_STRINGS = re.compile(r'["\[\]{},]')


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
        yield from enumerate(_JsonList(pieces, path, lines.max_line), 1)
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


class _JsonList:
    """The elements of a list of JSON, of which one at a time is held.

    Args:
        pieces: Iterator of the parts of its text.
        path: The file, for messages.
        most: Bytes of the longest element.
    """

    def __init__(self, pieces, path, most):
        self._pieces, self._path, self._most = pieces, path, most
        self._text, self._at, self._count = "", 0, 0
        self._decode = json.JSONDecoder().raw_decode

    def __iter__(self):
        """Yields each element, or a BadRow for one that is too long or too deeply nested."""
        self._next_character()
        self._at += 1  # the bracket
        while (found := self._next_character()) != "]":
            if self._count:
                if found != ",":
                    self._fail("a comma is needed")
                self._at += 1
                self._next_character()
            element = self._element()
            self._count += 1
            yield element
            if isinstance(element, BadRow):
                self._skip()
        self._at += 1
        if self._next_character():
            self._fail("something follows the list")

    def _element(self):
        """The next element; of a BadRow the text is still ahead."""
        while True:
            element, end, error = None, len(self._text), None
            try:
                element, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as caught:
                error = caught
            except (ValueError, RecursionError) as caught:  # thousands of digits or brackets
                element = BadRow("json", f"JSON that Python can read is needed ({caught})")
            if error and self._is_wrong(error):
                self._fail(error.msg)
            if exceeds(self._text[self._at:end], self._most):
                element = too_long(self._most, "record")
            if isinstance(element, BadRow):
                return element
            if end < len(self._text):  # one that ends there could go on: a number
                self._at = end
                return element
            if not self._read():
                self._fail(error.msg if error else "its bracket is not closed")

    def _is_wrong(self, error):
        """Whether the text that is held is wrong JSON, rather than the beginning of an element."""
        return error.pos < len(self._text) - _LONGEST_WORD and "Unterminated" not in error.msg

    def _skip(self):
        """Goes to the end of an element without holding it."""
        depth, in_string = 0, False
        while True:
            found = (_IN_STRING if in_string else _OUTSIDE_STRINGS).search(self._text, self._at)
            if found is None or found[0] == "\\":  # the end of what is held, or half an escape
                self._at = found.start() if found else len(self._text)
                if not self._read():
                    self._fail("its bracket is not closed")
                continue
            if not depth and not in_string and found[0] in ",]":
                self._at = found.start()
                return
            self._at = found.end()
            if found[0] == '"':
                in_string = not in_string
            elif not in_string:
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)

    def _next_character(self):
        """The next character that is not blank; "" at the end."""
        while True:
            self._at = _BLANKS(self._text, self._at).end()
            if self._at < len(self._text) or not self._read():
                return self._text[self._at:self._at + 1]

    def _read(self):
        """Doubles what is held, so that a long element is not parsed at every piece."""
        wanted, held = max(_BLOCK, len(self._text) - self._at), [self._text[self._at:]]
        while wanted > 0 and (piece := next(self._pieces, "")):
            held.append(piece)
            wanted -= len(piece)
        self._text, self._at = "".join(held), 0
        return len(held) > 1

    def _fail(self, error):
        raise UserError("One JSON object a line, or a whole list of them, is needed. Received: "
                        f"{self._path}, where the list ends or breaks off after element "
                        f"{self._count:,} ({error})") from None


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


def number_of(label):
    """A label as a finite number; None if it is none."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
