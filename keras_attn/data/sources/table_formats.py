"""Table formats: each reader yields the selected columns of the rows of a source.

A row is `(number, values)`, where values is a list of strings in the order of the columns, or a
`BadRow`. `tables` combines the readers.
"""

import codecs
import collections
import contextlib
import csv
import gzip
import io
import zlib
from typing import NamedTuple

from keras_attn.counts import counted
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.text_lines import MAX_LINE, is_gzip, require_text
from keras_attn.errors import UserError, nearest, reason_of, shortened
from keras_attn.io import gfile

FORMATS = {
    "tsv": (".tsv", ".tab"),
    "quoted_tsv": (),  # CSV with tabs, as written by pandas and spreadsheets
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet",),
    "lines": (".txt",),  # one text per line, in the column text
    "label_text": (),  # label, space and text; columns label and text
}
_QUOTED = "for TSV with quotes, set data.format=quoted_tsv (--format)"
_CHUNK = 1 << 20  # maximum number of characters per read
_DELIMITERS = {"csv": ",", "quoted_tsv": "\t"}
_FIXED_COLUMNS = {"lines": ["text"], "label_text": ["label", "text"]}

# Replaces bytes that cannot be decoded; valid text never contains it.
_UNDECODABLE = "\ud800"
UNDECODABLE = "keras_attn.undecodable"  # error handler for `bytes.decode`
codecs.register_error(UNDECODABLE, lambda error: (_UNDECODABLE, error.end))  # type: ignore[attr-defined]


class BadRow(NamedTuple):
    """Takes the describe_location of a row that cannot be read."""

    reason: str  # key of its count
    requirement: str  # what a valid row must be


EMPTY = BadRow("empty line", "A row must not be empty")  # counted, but not an error


def format_from_name(name):
    """Returns the format for the extension of a file name, or None."""
    stem = name.lower().removesuffix(".gz")
    for format, endings in FORMATS.items():
        if endings and stem.endswith(endings):
            return format
    return None


def require_format(name):
    format = format_from_name(name)
    if format is None:
        raise UserError(
            "The file name must end in .tsv, .csv, .jsonl, .parquet or .txt, or set data.format "
            f"(--format) to {', '.join(FORMATS)}. Received: {display_name(name)!r}"
        )
    return format


def describe_location(source, line):
    """Describes the location of a row, for messages."""
    if source.startswith("tfds:"):
        return f"{source}, example {line}"
    rows = source.lower().removesuffix(".gz").endswith((".parquet", ".json"))
    return f"{display_name(source)}, {'row' if rows else 'line'} {line}"


def is_text(value):
    """Whether a string has no surrogates, i.e. no undecodable bytes and no JSON escapes like
    \\ud800.
    """
    if value.isascii():
        return True
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Lines:
    """The decoded lines of a file, including their line ends, with a line count.

    A byte order mark is dropped. A line that is too long becomes a `BadRow`; at most `max_line`
    bytes of it are held in memory.

    Args:
        path: The file, gzipped if its name ends in `.gz`.
        encoding: Text encoding.
        max_line: Maximum length of a line in UTF-8 bytes; defaults to `MAX_LINE`.
    """

    def __init__(self, path, encoding, max_line=None):
        self.path, self.count = path, 0
        self.encoding = codecs.lookup(encoding).name
        self.max_line = max_line or MAX_LINE
        self._end = "\n"  # no other separators, as texts may contain \r, \x0b or U+2028

    def __iter__(self):
        return self.join(self.chunks())

    def chunks(self):
        """Yields the text in order: whole short lines, and chunks of long ones."""
        try:
            with contextlib.ExitStack() as stack:
                stream = stack.enter_context(gfile.open_file(self.path, "rb"))
                if is_gzip(self.path):
                    unzipped = stack.enter_context(gzip.GzipFile(fileobj=stream))
                    stream = stack.enter_context(io.BufferedReader(unzipped, 1 << 20))
                else:
                    require_text(self.path, stream.peek(10)[:10])
                self._end = _line_end(stream, self.encoding)
                text = stack.enter_context(
                    io.TextIOWrapper(stream, self.encoding, errors=UNDECODABLE, newline=self._end)
                )
                yield text.readline(_CHUNK).removeprefix("\ufeff")
                while chunk := text.readline(_CHUNK):
                    yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"Cannot read {display_name(self.path)}: the gzip file is truncated or "
                f"damaged ({error})"
            ) from None
        except UnicodeError as error:  # UTF-16 without a byte order mark
            raise UserError(
                f"Cannot decode {display_name(self.path)} as {self.encoding}: {error}. "
                "Set data.encoding (--encoding)"
            ) from None
        except OSError as error:
            raise UserError(f"Cannot read {display_name(self.path)}: {reason_of(error)}") from None

    def join(self, chunks):
        """Joins chunks to lines."""
        line, skipping = "", False
        for chunk in chunks:
            ended = chunk[-1:] == self._end
            if not skipping:
                line = line + chunk if line else chunk
                skipping = 4 * len(line) > self.max_line and exceeds(
                    without_end(line), self.max_line
                )
                if skipping or ended:
                    self.count += 1
                    yield too_long(self.max_line) if skipping else line
            if skipping or ended:
                line, skipping = "", skipping and not ended
        if line:
            self.count += 1
            yield line


def _line_end(stream, encoding):
    """Returns the line separator of a stream: a carriage return if it contains no line feed.

    If lines end with a line feed, texts may contain a carriage return, \x0b or U+2028.
    """
    start = stream.peek(1 << 20).decode(encoding, "replace")
    return "\r" if "\r" in start and "\n" not in start else "\n"


def exceeds(text, most):
    """Whether a text has more than `most` bytes in UTF-8."""
    return 4 * len(text) > most and len(text.encode("utf-8", "surrogatepass")) > most


def too_long(most, what="line"):
    """Returns the `BadRow` of a line or record of more than `most` bytes."""
    return BadRow(
        "too long",
        f"A {what} must have at most {counted(most, 'byte')}; raise "
        "data.max_line (--max_line) for longer ones",
    )


def undecodable(encoding):
    """Returns the `BadRow` of a text that is not of this encoding."""
    return BadRow("encoding", f"The text must be {encoding}; set data.encoding (--encoding)")


def without_end(line):
    """Removes the line end, a line feed with or without a carriage return, from a line."""
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
                fields = [line]  # an empty text is valid
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
                raise csv.Error(line.requirement)
            size = len(line) + (size if len(taken) > 1 else 0)
            if len(taken) > 1 and size > most:
                raise csv.Error(too_long(most, "row").requirement)
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
            bad = BadRow("csv", f"CSV must be well-formed ({error})")
            if len(taken) == 1 and isinstance(taken[0], BadRow):
                bad = taken[0]
            elif ended or isinstance(taken[-1], BadRow) or sum(map(len, taken)) > most:
                again.extendleft(reversed(taken[1:]))  # after an unclosed quote
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
        format: One of `FORMATS`, except JSON and Parquet.
        columns: Names or numbers of the columns.
        header: Whether the first line is a header; if None, it is if any column is given by name.
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
            raise UserError(f"{first[1].requirement}. Received: the header of {path}")
        names = [name.strip() for name in first[1]]
    indices = [
        _column_index(column, number, names, path)
        for column, number in zip(columns, numbers, strict=True)
    ]
    least, requirement = max(indices) + 1, None
    for number, fields in rows:
        if isinstance(fields, BadRow):
            yield number, fields
            continue
        if len(fields) < least:
            requirement = (
                f"A row must have at least {counted(least, 'field')}, but this one has "
                f"{len(fields)}"
            )
        elif names is not None and any(fields[len(names) :]):
            requirement = (
                f"A row must have the {counted(len(names), 'field')} of the header, but "
                "this one has more"
            )
        else:
            yield number, [fields[index] for index in indices]
            continue
        quoted = format == "tsv" and any(field.startswith('"') for field in fields)
        yield number, BadRow("fields", requirement + (f"; {_QUOTED}" if quoted else ""))


def header_names(path, format, encoding, max_line=None):
    """Returns the names in the first line of a TSV or CSV file, or [] for other formats."""
    if format not in ("tsv", *_DELIMITERS):
        return []
    for _, fields in _split_rows(Lines(path, encoding, max_line), format):
        if fields is not EMPTY:
            return [] if isinstance(fields, BadRow) else [name.strip() for name in fields]
    return []


def _column_index(column, number, names, path):
    if names is not None and str(column) in names:
        if names.count(str(column)) > 1:
            raise UserError(
                f"The column name {column!r} must be unique. Received: several in {path}"
            )
        return names.index(str(column))
    if number is None or (names is not None and number >= len(names)):
        _check_header(names or [], path)
        raise_missing_column(column, names, path)
    return number


def raise_missing_column(column, names, path):
    if names is None:
        raise UserError(
            "Columns of a file without a header must be given by number. "
            f"Received: {column!r} for {path}"
        )
    raise UserError(
        f"Unknown column {column!r}. The columns of {path} are {shortened(', '.join(names), 500)}"
        f"{nearest(column, names)}"
    )


def _check_header(names, path):
    """Raises UserError if a header has the wrong encoding or the wrong separators."""
    line = "".join(names)
    if not is_text(line) or "\0" in line:
        raise UserError(
            f"Cannot decode the header of {path}. Set data.encoding (--encoding) to its encoding"
        )
    if names and all(name[:1] == '"' == name[-1:] for name in names):
        raise UserError(
            "Column names in a TSV header must not be quoted; "
            f"{_QUOTED}. Received: quotes in the header of {path}"
        )
    other = {
        "\t": ("tabs", "set data.format=quoted_tsv (--format)"),
        ";": ("semicolons", "convert the file to commas"),
        ",": ("commas", "set data.format=csv (--format)"),
    }
    for separator, (found, advice) in other.items():
        if len(names) == 1 and separator in line:
            raise UserError(
                "Fields must be separated by commas in CSV, and by tabs in TSV; "
                f"{advice}. Received: {found} in the header of {path}"
            )
