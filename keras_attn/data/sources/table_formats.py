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
import zlib
from typing import NamedTuple

import tensorflow as tf

from keras_attn.counts import counted
from keras_attn.data.sources.streams import shown
from keras_attn.data.sources.text_lines import MAX_LINE, is_gzip
from keras_attn.errors import UserError, nearest, shortened

FORMATS = {
    "tsv": (".tsv", ".tab"),
    "quoted_tsv": (),  # CSV with tabs, as pandas and spreadsheets write it
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet",),
    "lines": (".txt",),  # one text a line; the column is called text
    "label_text": (),  # a label, a blank, the text; columns label and text
}
_QUOTED = "read TSV with quotes with data.format=quoted_tsv (--format)"
_PIECE = 1 << 20  # characters of a line that are read at once
_DELIMITERS = {"csv": ",", "quoted_tsv": "\t"}
_FIXED_COLUMNS = {"lines": ["text"], "label_text": ["label", "text"]}

# Stands for bytes that cannot be decoded: no valid text contains it.
_UNDECODABLE = "\ud800"
UNDECODABLE = "keras_attn.undecodable"  # how to treat them in `bytes.decode`
codecs.register_error(
    UNDECODABLE, lambda error: (_UNDECODABLE, error.end))  # type: ignore[attr-defined]


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


def place(source, line):
    """Says where a row came from, for messages."""
    if source.startswith("tfds:"):
        return f"{source}, example {line}"
    rows = source.lower().removesuffix(".gz").endswith((".parquet", ".json"))
    return f"{shown(source)}, {'row' if rows else 'line'} {line}"


def is_text(value):
    """False for what holds half a surrogate pair: undecodable bytes, or JSON's \\ud800."""
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class RawFile(io.RawIOBase):
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

    A byte order mark is dropped. A line that is too long is a `BadRow`; at most `max_line` bytes
    of it are held in memory.

    Args:
        path: The file; gzipped if its name ends with `.gz`.
        encoding: Of the text.
        max_line: Bytes of the longest line, as UTF-8; None: `MAX_LINE`.
    """

    def __init__(self, path, encoding, max_line=None):
        self.path, self.count = path, 0
        self.encoding = codecs.lookup(encoding).name
        self.max_line = max_line or MAX_LINE
        self._end = "\n"  # only this ends a line: texts may hold \r, \x0b or U+2028

    def __iter__(self):
        return self.join(self.pieces())

    def pieces(self):
        """Yields the text in order: whole short lines, and parts of long ones."""
        try:
            with contextlib.ExitStack() as stack:
                stream = stack.enter_context(io.BufferedReader(RawFile(self.path), 1 << 20))
                if is_gzip(self.path):
                    unzipped = stack.enter_context(gzip.GzipFile(fileobj=stream))
                    stream = stack.enter_context(io.BufferedReader(unzipped, 1 << 20))
                self._end = _line_end(stream, self.encoding)
                text = stack.enter_context(io.TextIOWrapper(
                    stream, self.encoding, errors=UNDECODABLE, newline=self._end))
                yield text.readline(_PIECE).removeprefix("\ufeff")
                while piece := text.readline(_PIECE):
                    yield piece
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"A whole .gz file is needed. Received: {shown(self.path)} ({error})"
            ) from None
        except UnicodeError as error:  # UTF-16 that does not say which
            raise UserError(f"Text in {self.encoding} is needed. "
                            f"Received: {shown(self.path)} ({error})") from None
        except (OSError, tf.errors.OpError) as error:
            raise UserError("A readable file is needed. "
                            f"Received: {shown(self.path)} ({error})") from None

    def join(self, pieces):
        """Yields the lines that pieces make up."""
        line, skipping = "", False
        for piece in pieces:
            ended = piece[-1:] == self._end
            if not skipping:
                line = line + piece if line else piece
                skipping = 4 * len(line) > self.max_line and exceeds(
                    without_end(line), self.max_line)
                if skipping or ended:
                    self.count += 1
                    yield too_long(self.max_line) if skipping else line
            if skipping or ended:
                line, skipping = "", skipping and not ended
        if line:
            self.count += 1
            yield line


def _line_end(stream, encoding):
    """What ends the lines of a stream: a line feed, or a carriage return where there is none.

    Where lines end with a line feed, texts may hold a carriage return, \x0b or U+2028.
    """
    start = stream.peek(1 << 20).decode(encoding, "replace")
    return "\r" if "\r" in start and "\n" not in start else "\n"


def exceeds(text, most):
    """Whether a text has more bytes than `most`, as UTF-8."""
    return 4 * len(text) > most and len(text.encode("utf-8", "surrogatepass")) > most


def too_long(most, what="line"):
    """The `BadRow` of a line or record of more than `most` bytes."""
    return BadRow("too long", f"A {what} must have at most {counted(most, 'byte')}; raise "
                              "data.max_line (--max_line) for longer ones")


def without_end(line):
    """A line without its line end, which is a line feed with or without a carriage return."""
    return line.removesuffix("\n").removesuffix("\r")


def _split_rows(lines, format):
    """Yields (line number, fields or BadRow)."""
    if format in _DELIMITERS:
        yield from _csv_rows(lines, _DELIMITERS[format])
        return
    for number, line in enumerate(lines, 1):
        fields = line
        if not isinstance(line, BadRow):
            line = without_end(line)
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


def _csv_rows(lines, delimiter):
    most = lines.max_line
    csv.field_size_limit(most)
    lines, again, taken, ended = iter(lines), collections.deque(), [], False

    def feed():
        nonlocal ended
        size = 0
        while (line := again.popleft() if again else next(lines, None)) is not None:
            taken.append(line)
            if isinstance(line, BadRow):
                raise csv.Error(line.need)
            size = len(line) + (size if len(taken) > 1 else 0)
            if len(taken) > 1 and size > most:
                raise csv.Error(too_long(most, "row").need)
            yield line
        ended = True

    def reader():
        return csv.reader(feed(), strict=True, delimiter=delimiter)

    rows, number = reader(), 1
    while True:
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            bad = BadRow("csv", f"Well-formed CSV is needed ({error})")
            if len(taken) == 1 and isinstance(taken[0], BadRow):
                bad = taken[0]
            elif ended or isinstance(taken[-1], BadRow) or sum(map(len, taken)) > most:
                again.extendleft(reversed(taken[1:]))  # after a quote that nothing closes
                del taken[1:]
            ended, rows = False, reader()
            yield from ((number + later, bad) for later in range(len(taken)))
        else:
            yield number, fields or EMPTY
        number += len(taken)
        taken.clear()


def delimited_rows(lines, format, columns, header, path):
    """Yields the rows of a text file: `(number, list of strings or a BadRow)`.

    Args:
        lines: `Lines` of the file.
        format: One of `FORMATS`, but for JSON and Parquet.
        columns: Names or numbers.
        header: Whether the first line has the names; None: if a column is a name.
        path: The file, for messages.
    """
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
    least, need = max(indices) + 1, None
    for number, fields in rows:
        if isinstance(fields, BadRow):
            yield number, fields
            continue
        if len(fields) < least:
            need = (f"A row with at least {counted(least, 'field')} is needed, it has "
                    f"{len(fields)}")
        elif names is not None and any(fields[len(names) :]):
            need = (f"A row with {counted(len(names), 'field')} as in the header is needed, it has "
                    "more")
        else:
            yield number, [fields[index] for index in indices]
            continue
        quoted = format == "tsv" and any(field.startswith('"') for field in fields)
        yield number, BadRow("fields", need + (f"; {_QUOTED}" if quoted else ""))


def header_names(path, format, encoding, max_line=None):
    """The names in the first line of a TSV or CSV file, if that is its header; [] of others."""
    if format not in ("tsv", *_DELIMITERS):
        return []
    for _, fields in _split_rows(Lines(path, encoding, max_line), format):
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
        raise UserError("Text in the encoding that is given is needed; set data.encoding "
                        f"(--encoding). Received: another in the header of {path}")
    if names and all(name[:1] == '"' == name[-1:] for name in names):
        raise UserError(f"A header of names without quotes is needed; {_QUOTED}. Received: quotes "
                        f"in the header of {path}")
    other = {"\t": ("tabs", "read it with data.format=quoted_tsv (--format)"),
             ";": ("semicolons", "write it with commas"),
             ",": ("commas", "read it with data.format=csv (--format)")}
    for sign, (found, advice) in other.items():
        if len(names) == 1 and sign in line:
            raise UserError(f"Fields must be separated by commas in CSV, by tabs in TSV; {advice}. "
                            f"Received: {found} in the header of {path}")
