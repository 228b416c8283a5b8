"""The formats of tables: each turns a source into rows of the wanted columns.

A row is `(number, values)`, values a list of strings in the order of the
columns, or a `BadRow`. `tables` puts them together.
"""

import codecs
import collections
import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from typing import NamedTuple

import tensorflow as tf

from keras_attn.data.streams import shown
from keras_attn.data.text_lines import is_gzip
from keras_attn.errors import UserError, first_line, nearest, shortened

FORMATS = {
    "tsv": (".tsv", ".tab"),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet",),
    "lines": (".txt",),  # one text a line; the column is called text
    "label_text": (),  # a label, a blank, the text; columns label and text
}
MOST = 8 << 20  # characters of a field of CSV; Python's own limit is 128 Ki
_FIXED_COLUMNS = {"lines": ["text"], "label_text": ["label", "text"]}

# Stands for bytes that cannot be decoded: no valid text contains it.
_UNDECODABLE = "\ud800"
codecs.register_error("keras_attn.undecodable", lambda error: (_UNDECODABLE, error.end))


class BadRow(NamedTuple):
    """What stands in for a row that cannot be read."""

    reason: str  # the name it is counted under
    need: str  # what the row should have been


EMPTY = BadRow("empty line", "A row is needed")  # no fault, but counted


def told_format(name):
    """The format that the ending of a file's name tells, or None."""
    stem = name.lower().removesuffix(".gz")
    for format, endings in FORMATS.items():
        if endings and stem.endswith(endings):
            return format
    return None


def format_of(name):
    format = told_format(name)
    if format is None:
        raise UserError(
            "A file name that ends in .tsv, .csv, .jsonl, .parquet or .txt is needed, "
            f"or format={'|'.join(FORMATS)}. Received: {shown(name)!r}"
        )
    return format


def is_text(value):
    """False for what holds half a surrogate pair: undecodable bytes, or JSON's \\ud800."""
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class _RawFile(io.RawIOBase):
    """A file of any filesystem TensorFlow knows, as Python's io sees it."""

    def __init__(self, path):
        self._file = tf.io.gfile.GFile(path, "rb")

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self):
        return self._file.tell()

    def readinto(self, buffer):
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._file.close()
        super().close()


class Lines:
    """Lines of a file, decoded, with their ends; counts them.

    A byte order mark is dropped.
    """

    def __init__(self, path, encoding):
        self.path, self.count = path, 0
        self.encoding = codecs.lookup(encoding).name

    def __iter__(self):
        try:
            with contextlib.ExitStack() as stack:
                stream = stack.enter_context(io.BufferedReader(_RawFile(self.path), 1 << 20))
                if is_gzip(self.path):
                    stream = stack.enter_context(gzip.GzipFile(fileobj=stream))
                text = io.TextIOWrapper(
                    stream, self.encoding, errors="keras_attn.undecodable",
                    newline=_line_end(stream, self.encoding),
                )
                for line in stack.enter_context(text):
                    self.count += 1
                    yield line if self.count > 1 else line.removeprefix("\ufeff")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"A whole .gz file is needed. Received: {self.path} ({error})"
            ) from None
        except UnicodeError as error:  # UTF-16 that does not say which
            raise UserError(f"Text in {self.encoding} is needed. "
                            f"Received: {self.path} ({error})") from None
        except (OSError, tf.errors.OpError) as error:
            raise UserError(f"A readable file is needed. Received: {self.path} ({error})") from None


def _line_end(stream, encoding):
    """What ends the lines of a stream: a line feed, or a carriage return where there is none.

    Where lines end with a line feed, texts may hold a carriage return, \x0b or U+2028.
    """
    start = stream.peek(1 << 16)[:1 << 16].decode(encoding, "replace")
    return "\r" if "\r" in start and "\n" not in start else "\n"


def _without_end(line):
    return line.removesuffix("\n").removesuffix("\r")


def _split_rows(lines, format):
    """Yields (line number, fields or BadRow)."""
    if format == "csv":
        yield from _csv_rows(lines)
        return
    for number, line in enumerate(map(_without_end, lines), 1):
        if format == "lines":
            fields = [line]  # an empty text is a text
        elif not line:
            fields = EMPTY
        elif format == "tsv":
            fields = line.split("\t")
        else:
            fields = line.split(None, 1) if line[0].strip() else ["", line]
            fields += [""] * (2 - len(fields))
        yield number, fields


def _csv_rows(lines):
    csv.field_size_limit(MOST)
    lines, again, taken, ended = iter(lines), collections.deque(), [], False

    def feed():
        nonlocal ended
        while (line := again.popleft() if again else next(lines, None)) is not None:
            taken.append(line)
            yield line
        ended = True

    reader, number = csv.reader(feed(), strict=True), 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad = BadRow("csv", f"Well-formed CSV is needed ({error})")
            if ended or sum(map(len, taken)) > MOST:  # a quote that nothing closes
                again.extendleft(reversed(taken[1:]))
                del taken[1:]
                ended, reader = False, csv.reader(feed(), strict=True)
            yield from ((number + later, bad) for later in range(len(taken)))
        else:
            yield number, fields or EMPTY
        number += len(taken)
        taken.clear()


def delimited_rows(lines, format, columns, header, path):
    rows = _split_rows(lines, format)
    numbers = [int(c) if str(c).isascii() and str(c).isdigit() else None for c in columns]
    names = _FIXED_COLUMNS.get(format)
    if names is None and (header or (header is None and None in numbers)):
        first = next((row for row in rows if row[1] is not EMPTY), None)
        if first is None:
            return
        if isinstance(first[1], BadRow):
            raise UserError(f"{first[1].need}. Received: the header of {path}")
        names = [name.strip() for name in first[1]]
    indices = [
        _column_index(column, number, names, path)
        for column, number in zip(columns, numbers, strict=True)
    ]
    least = max(indices) + 1
    for number, fields in rows:
        if isinstance(fields, BadRow):
            yield number, fields
        elif len(fields) < least:
            need = f"A row with at least {least} fields is needed, it has {len(fields)}"
            yield number, BadRow("fields", need)
        elif names is not None and any(fields[len(names) :]):
            need = f"A row with the {len(names)} fields of the header is needed, it has more"
            yield number, BadRow("fields", need)
        else:
            yield number, [fields[index] for index in indices]


def header_names(path, format, encoding):
    """The names in the first line of a TSV or CSV file, if that is its header; [] of others."""
    if format not in ("tsv", "csv"):
        return []
    for _, fields in _split_rows(Lines(path, encoding), format):
        if fields is not EMPTY:
            return [] if isinstance(fields, BadRow) else [name.strip() for name in fields]
    return []


def _column_index(column, number, names, path):
    if names is not None and str(column) in names:
        if names.count(str(column)) > 1:
            raise UserError(f"One column {column!r} is needed. Received: several in {path}")
        return names.index(str(column))
    if number is None or (names is not None and number >= len(names)):
        _check_header(names or [], path)
        refuse_column(column, names, path)
    return number


def refuse_column(column, names, path):
    if names is None:
        raise UserError(
            f"Columns are numbers in a file without a header. Received: {column!r} for {path}"
        )
    raise UserError(
        f"A column of {path} is needed: {shortened(', '.join(names), 500)}. "
        f"Received: {column!r}{nearest(column, names)}"
    )


def _check_header(names, path):
    """Raises UserError if a header is of another encoding or has other separators."""
    line = "".join(names)
    if not is_text(line) or "\0" in line:
        raise UserError("Text in the encoding that is given is needed; look for data.encoding. "
                        f"Received: another in the header of {path}")
    other = {";": "a semicolon", "\t": "a tab", ",": "a comma"}
    found = [name for sign, name in other.items() if len(names) == 1 and sign in line]
    if found:
        raise UserError("Fields must be apart by commas in CSV, by tabs in TSV (data.format, or "
                        f"--format). Received: {found[0]} between those of the header of {path}")


def _json_records(lines, path):
    """Yields (line, or number in the list, and what is there or a BadRow)."""
    lines = iter(lines)
    first = next(lines, "")
    if first.lstrip().startswith("["):  # as other tools write tables: in memory
        try:
            yield from enumerate(json.loads(first + "".join(lines)), 1)
        except (ValueError, RecursionError) as error:  # nested too deeply
            raise UserError("One JSON object a line, or a whole list of them, is needed. "
                            f"Received: {path} ({error})") from None
        return
    for number, line in enumerate(itertools.chain([first], lines), 1):
        if not line.strip():
            yield number, EMPTY
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, BadRow("json", f"One JSON object a line is needed ({error})")


def json_rows(lines, columns, path):
    keys, known = [str(column) for column in columns], set()
    for number, record in _json_records(lines, path):
        if isinstance(record, BadRow):
            yield number, record
            continue
        if not isinstance(record, dict):
            yield number, BadRow("json", "One JSON object a line is needed")
            continue
        missing = [key for key in keys if key not in record]
        if missing and missing[0] not in known:  # a wrong name, not a wrong row
            refuse_column(missing[0], list(record), f"{path}, line {number}")
        known.update(record.keys() & set(keys))
        if missing:
            found = ", ".join(record) or "none"
            yield number, BadRow("fields", f"The field {missing[0]!r} is needed, not {found}")
        else:
            yield number, [_json_string(record[key]) for key in keys]


def parquet_rows(columns, path):
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:  # none, or one that is too new for this NumPy
        raise UserError(
            f"Parquet needs pyarrow (pip install pyarrow). Received: {path} ({first_line(error)})"
        ) from error

    keys = [str(column) for column in columns]
    count = 0
    try:
        with _RawFile(path) as file:
            # Else it reads all groups of rows ahead, or the whole of one.
            table = ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            names = table.schema_arrow.names
            for key in keys:
                if key not in names:
                    refuse_column(key, names, path)
            for batch in table.iter_batches(batch_size=1024, columns=keys):
                for record in batch.to_pylist():
                    count += 1
                    yield count, [_json_string(record[key]) for key in keys]
    except (ArrowException, OSError, UnicodeDecodeError, tf.errors.OpError) as error:
        reason = first_line(error)
        raise UserError(
            f"A readable Parquet file is needed. Received: {path} ({reason})") from error
    if not count:
        raise UserError(f"A file with rows is needed. Received: {path}")


def _json_string(value):
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "keras_attn.undecodable")
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:  # a decimal or a date alone is no text with quotes
        inside = isinstance(value, (list, tuple, dict))
        return json.dumps(value, ensure_ascii=False, default=_plain) if inside else str(value)


def _plain(value):
    """What JSON cannot say: bytes of a list, dates."""
    return _json_string(value) if isinstance(value, bytes) else str(value)
