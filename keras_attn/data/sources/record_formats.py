"""Record readers: text tables, and JSON and Parquet with typed values."""

import itertools
import json
import math
import re

from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import (
    EMPTY,
    UNDECODABLE,
    BadRow,
    Lines,
    delimited_rows,
    exceeds,
    is_text,
    raise_missing_column,
    too_long,
    undecodable,
)
from keras_attn.errors import UserError, first_line, reason_of
from keras_attn.io import gfile

_WHITESPACE = re.compile(r"[ \t\r\n]*").match
_BLOCK = 1 << 16  # characters of a JSON list per read
# In characters. The end of the buffer may split tokens such as -Infinity or \uXXXX.
_LONGEST_WORD = 16
# Characters that change the nesting, inside a string (with whole escapes) and outside of strings.
_IN_STRING = re.compile(r'"|\\.|\\', re.DOTALL)
_OUTSIDE_STRINGS = re.compile(r'["\[\]{},]')


def file_rows(path, format, columns, encoding="utf-8", header=None, max_line=None):
    """Yields the rows of a file: `(number, values or a BadRow)`.

    Args:
        path: The file.
        format: One of `FORMATS`.
        columns: Names or numbers of the columns.
        encoding: As in `tables.iterate_rows`.
        header: As in `tables.iterate_rows`.
        max_line: As in `tables.iterate_rows`.

    Raises:
        UserError: If the file is empty or cannot be read, or a column is missing.
    """
    lines = Lines(path, encoding, max_line)
    if format == "parquet":
        yield from parquet_rows(columns, path, lines.max_line)
        return
    if format == "jsonl":
        yield from json_rows(lines, columns, display_name(path))
    else:
        yield from delimited_rows(lines, format, columns, header, display_name(path))
    if not lines.count:
        raise UserError(f"The file {display_name(path)} is empty")


def json_rows(lines, columns, path):
    """Yields the rows of a file with one JSON object per line, or with a list of objects.

    Args:
        lines: `Lines` of the file.
        columns: Keys of the objects.
        path: The file, for messages.

    Yields:
        `(number, values)`: the line, or the number in the list, and the JSON values, or a `BadRow`.
    """
    keys, known = [str(column) for column in columns], set()
    for number, record in _json_records(lines, path):
        if isinstance(record, BadRow):
            yield number, record
            continue
        if not isinstance(record, dict):
            yield number, BadRow("json", "Each line or list element must be a JSON object")
            continue
        missing = [key for key in keys if key not in record]
        if missing and missing[0] not in known:  # the name is wrong, not the row
            raise_missing_column(missing[0], list(record), f"{path}, line {number}")
        known.update(record.keys() & set(keys))
        if missing:
            found = ", ".join(record) or "none"
            yield (
                number,
                BadRow(
                    "fields", f"The field {missing[0]!r} is required, but the fields are {found}"
                ),
            )
        else:
            yield number, [record[key] for key in keys]


def is_json_list(lines):
    """Whether a file contains a JSON list instead of one object per line."""
    first = next((chunk for chunk in lines.chunks() if chunk.strip()), "")
    return first.lstrip().startswith("[")


def _json_records(lines, path):
    """Yields (number of the line or list element, its value or a BadRow)."""
    chunks, blank = lines.chunks(), []
    for chunk in chunks:
        blank.append(chunk)
        if chunk.strip():
            break
    chunks = itertools.chain(blank, chunks)
    if blank and blank[-1].lstrip().startswith("["):
        yield from enumerate(_JsonList(chunks, path, lines.max_line), 1)
        lines.count = lines.count or 1
        return
    for number, line in enumerate(lines.join(chunks), 1):
        if isinstance(line, BadRow):
            yield number, line
        elif not line.strip():
            yield number, EMPTY
        else:
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:  # nested too deeply
                bad = BadRow("json", f"Each line must be a JSON object ({error})")
                decoded = is_text(line) and "\0" not in line  # UTF-16 contains bytes 0
                yield number, bad if decoded else undecodable(lines.encoding)


class _JsonList:
    """Iterates over the elements of a JSON list, holding one at a time in memory.

    Args:
        chunks: Iterator over the chunks of its text.
        path: The file, for messages.
        most: Maximum size of an element in bytes.
    """

    def __init__(self, chunks, path, most):
        self._chunks, self._path, self._most = chunks, path, most
        self._text, self._at, self._count = "", 0, 0
        self._decode = json.JSONDecoder().raw_decode

    def __iter__(self):
        """Yields each element, or a BadRow if it is too long or too deeply nested."""
        self._next_character()
        self._at += 1  # the bracket
        while (found := self._next_character()) != "]":
            if self._count:
                if found != ",":
                    self._fail("missing comma")
                self._at += 1
                self._next_character()
            element = self._element()
            self._count += 1
            yield element
            if isinstance(element, BadRow):
                self._skip()
        self._at += 1
        if self._next_character():
            self._fail("unexpected text after the list")

    def _element(self):
        """Returns the next element. The text of a BadRow is not consumed."""
        while True:
            element, end, error = None, len(self._text), None
            try:
                element, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as caught:
                error = caught
            except (ValueError, RecursionError) as caught:  # thousands of digits or brackets
                element = BadRow(
                    "json", f"The element must be JSON that Python can parse ({caught})"
                )
            if error and self._is_wrong(error):
                self._fail(error.msg)
            if exceeds(self._text[self._at : end], self._most):
                element = too_long(self._most, "record")
            if isinstance(element, BadRow):
                return element
            if end < len(self._text):  # a number at the end of the buffer may be incomplete
                self._at = end
                return element
            if not self._read():
                self._fail(error.msg if error else "unclosed bracket")

    def _is_wrong(self, error):
        """Whether the buffer is invalid JSON rather than the start of an element."""
        return error.pos < len(self._text) - _LONGEST_WORD and "Unterminated" not in error.msg

    def _skip(self):
        """Skips an element without holding it in memory."""
        depth, in_string = 0, False
        while True:
            found = (_IN_STRING if in_string else _OUTSIDE_STRINGS).search(self._text, self._at)
            if found is None or found[0] == "\\":  # end of the buffer, or half an escape
                self._at = found.start() if found else len(self._text)
                if not self._read():
                    self._fail("unclosed bracket")
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
        """Returns the next non-whitespace character, or "" at the end."""
        while True:
            self._at = _WHITESPACE(self._text, self._at).end()
            if self._at < len(self._text) or not self._read():
                return self._text[self._at : self._at + 1]

    def _read(self):
        """Doubles the buffer, so that a long element is not parsed again for every chunk."""
        wanted, held = max(_BLOCK, len(self._text) - self._at), [self._text[self._at :]]
        while wanted > 0 and (chunk := next(self._chunks, "")):
            held.append(chunk)
            wanted -= len(chunk)
        self._text, self._at = "".join(held), 0
        return len(held) > 1

    def _fail(self, error):
        raise UserError(
            "The file must have one JSON object per line, or a complete list of "
            f"objects. Received: {self._path}, where the list is damaged or truncated "
            f"after element {self._count:,} ({error})"
        ) from None


def parquet_rows(columns, path, most):
    """Yields the rows of a Parquet file like `json_rows`.

    Args:
        columns: Names of the columns.
        path: The file.
        most: Maximum size of a value in bytes.
    """
    pyarrow = import_pyarrow(path)
    keys, count, name = [str(column) for column in columns], 0, display_name(path)
    try:
        with gfile.open_file(path, "rb") as file:
            # By default, pyarrow would prefetch all row groups, or read one as a whole.
            table = pyarrow.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            names = table.schema_arrow.names
            for key in keys:
                if key not in names:
                    raise_missing_column(key, names, name)
            for batch in table.iter_batches(batch_size=1024, columns=keys):
                for record in batch.to_pylist():
                    count += 1
                    values = [record[key] for key in keys]
                    long = any(isinstance(v, str) and exceeds(v, most) for v in values)
                    yield count, too_long(most, "value") if long else values
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"Cannot read the Parquet file {name}: {reason_of(error)}") from error
    if not count:
        raise UserError(f"The file {name} has no rows")


def import_pyarrow(path):
    """Returns the module `pyarrow`, which has imported `pyarrow.parquet`.

    Args:
        path: The Parquet file, for the message.

    Raises:
        UserError: If it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:  # missing, or incompatible with the installed NumPy
        raise UserError(
            "Parquet files require pyarrow (pip install pyarrow). "
            f"Received: {path} ({first_line(error)})"
        ) from error
    return pyarrow


def as_text(value):
    """Converts a value of a record to text, as in a text table."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", UNDECODABLE)
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # a single decimal or date must not be quoted
        inside = isinstance(value, (list, tuple, dict))
        if not inside:
            return str(value)
        return json.dumps(value, ensure_ascii=False, default=_json_default)


def as_label(value):
    """Converts a value of a record to a label, such that equal numbers become the same text.

    Missing labels and non-finite numbers become "".
    """
    if isinstance(value, (list, tuple)):
        parts = [as_label(part) or None if isinstance(part, float) else part for part in value]
        return json.dumps(parts, ensure_ascii=False, default=_json_default)
    if isinstance(value, float):
        if not math.isfinite(value):
            return ""
        if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
    return as_text(value)


def _json_default(value):
    """Converts values that JSON does not support: bytes inside of a list, and dates."""
    return as_text(value) if isinstance(value, bytes) else str(value)


def as_number(label):
    """Converts a label to a finite number, or returns None."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
