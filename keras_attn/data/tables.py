"""Rows of text and label from TSV, CSV, JSONL and plain files, and from TFDS.

Columns are chosen by name, or by number in files without a header. TSV is read
as GLUE writes it (quotes are ordinary characters), CSV with quoting. Rows keep
the order of the file, and every row knows its file and line, so that an error
can say where it is.
"""

import codecs
import collections
import contextlib
import csv
import dataclasses
import difflib
import gzip
import io
import json
import zlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError

FORMATS = {
    "tsv": (".tsv", ".tab"),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "lines": (".txt",),  # one text a line; the column is called text
    "label_text": (),  # a label, a blank, the text; columns label and text
}
_FIXED_COLUMNS = {"lines": ["text"], "label_text": ["label", "text"]}

# Stands for bytes that cannot be decoded: no valid text contains it.
_UNDECODABLE = "\ud800"
codecs.register_error("keras_attn.undecodable", lambda error: (_UNDECODABLE, error.end))


class Row(NamedTuple):
    """One row; `text_pair` and `label` are None if no such column was asked for."""

    text: str
    text_pair: str | None
    label: str | None
    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class Table:
    """All rows of a source in memory.

    Attributes:
        texts: Strings, one a row.
        text_pairs: Strings, or None without such a column.
        labels: Strings, or None without such a column.
        skipped: How many rows were left out, by reason.
        lines: Line of the file each row started at, int64.
        files: `(first row, name)` of each file.
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: list[str] | None
    skipped: dict[str, int]
    lines: np.ndarray
    files: list[tuple[int, str]]

    def __len__(self):
        return len(self.texts)

    def where(self, row):
        """Says where a row came from: `train.tsv, line 7`."""
        name = [name for start, name in self.files if start <= row][-1]
        return f"{name}, line {self.lines[row]}"


class _BadRow(NamedTuple):
    reason: str  # the name it is counted under
    need: str  # what the row should have been


def read_table(source, *, text, text_pair=None, label=None, limit=None, **options):
    """Reads a whole source into memory.

    Args:
        source, text, text_pair, label, options: As in `iterate_rows`.
        limit: Read this many rows at most.

    Returns:
        A `Table`.

    Raises:
        UserError: As `iterate_rows`, and if there is no row at all.
    """
    rows = iterate_rows(source, text=text, text_pair=text_pair, label=label, **options)
    texts, pairs, labels, lines, files = [], [], [], [], []
    for row in rows:
        if limit is not None and len(texts) == limit:
            break
        if not files or files[-1][1] != row.file:
            files.append((len(texts), row.file))
        texts.append(row.text)
        pairs.append(row.text_pair)
        labels.append(row.label)
        lines.append(row.line)
    if not texts:
        skipped = f" ({sum(rows.skipped.values())} skipped)" if rows.skipped else ""
        raise UserError(f"At least one row is needed{skipped}. Received: {source!r}")
    return Table(
        texts,
        None if text_pair is None else pairs,
        None if label is None else labels,
        dict(rows.skipped),
        np.array(lines, np.int64),
        files,
    )


class iterate_rows:
    """Reads a source row by row, in order, in constant memory.

    Args:
        source: A file, a glob, a list of them or the same separated by commas,
            each optionally gzipped; or `tfds:NAME[/CONFIG][:SPLIT]`.
        text, text_pair, label: Columns: a name of the header (or JSON field, or
            TFDS feature), or a number from 0.
        encoding: Of the files. A UTF-8 byte order mark is dropped.
        on_bad_text: "error", or "skip" to leave out and count rows that cannot
            be decoded or parsed, or have too few fields.
        header: Whether TSV and CSV files start with a line of names. None: they
            do, unless all columns are given as numbers.
        format: One of `FORMATS`; None: from the file's name.

    Attributes:
        skipped: Counts of rows left out, by reason.

    Raises:
        UserError: At once for a missing file, an empty glob or an unknown
            option; while iterating for an empty file, a missing column, a bad
            row (with file and line) or a row without a label.
    """

    def __init__(
        self,
        source,
        *,
        text,
        text_pair=None,
        label=None,
        encoding="utf-8",
        on_bad_text="error",
        header=None,
        format=None,
    ):
        if text is None:
            raise UserError("The name of the text column is needed. Received: text=None")
        if on_bad_text not in ("error", "skip"):
            raise UserError(f'on_bad_text must be "error" or "skip". Received: {on_bad_text!r}')
        if format is not None and format not in FORMATS:
            raise UserError(f"format must be one of {', '.join(FORMATS)}. Received: {format!r}")
        try:
            self._encoding = codecs.lookup(encoding).name
        except LookupError:
            raise UserError(f"encoding must be known to Python. Received: {encoding!r}") from None
        if self._encoding == "utf-8":
            self._encoding = "utf-8-sig"
        self._columns = {"text": text, "text_pair": text_pair, "label": label}
        self._on_bad_text = on_bad_text
        self._header = header
        self._sources = [
            (name, name if name.startswith("tfds:") else format or _format_of(name))
            for name in list_sources(source)
        ]
        self.skipped = collections.Counter()

    def __iter__(self):
        self.skipped.clear()
        wanted = [name for name, column in self._columns.items() if column is not None]
        for source, format in self._sources:
            for line, values in self._read(source, format):
                if isinstance(values, _BadRow):
                    self._refuse(values, source, line)
                    continue
                row = Row(*_in_order(wanted, values), source, line)
                if row.label == "":
                    raise UserError(
                        f"A label in column {self._columns['label']!r} is needed in every row. "
                        f"Received: none in {source}, line {line}"
                    )
                yield row

    def _refuse(self, bad, source, line):
        if self._on_bad_text == "error":
            raise UserError(
                f"{bad.need}; on_bad_text=skip leaves such rows out. "
                f"Received: {source}, line {line}"
            )
        self.skipped[bad.reason] += 1

    def _read(self, source, format):
        """Yields (line, values of the wanted columns or _BadRow)."""
        columns = [column for column in self._columns.values() if column is not None]
        if source.startswith("tfds:"):
            yield from _tfds_rows(source, columns)
            return
        lines = _Lines(source, self._encoding)
        if format == "jsonl":
            rows = _json_rows(lines, columns, source)
        else:
            rows = _delimited_rows(lines, format, columns, self._header, source)
        for line, values in rows:
            if not isinstance(values, _BadRow) and not all(map(_is_text, values)):
                name = self._encoding.removesuffix("-sig")
                values = _BadRow("encoding", f"Text in {name} is needed (or another encoding)")
            yield line, values
        if not lines.count:
            raise UserError(f"A file with rows is needed. Received: the empty file {source}")


def _in_order(wanted, values):
    given = dict(zip(wanted, values, strict=True))
    return given["text"], given.get("text_pair"), given.get("label")


def list_sources(source):
    """Expands a source into names of files (sorted within a glob) and `tfds:` names.

    Raises:
        UserError: If a file is missing or a glob matches nothing.
    """
    if isinstance(source, str):
        parts = [source] if _is_file(source) else source.split(",")
    else:
        parts = [str(part) for part in source or ()]
    names = []
    for part in (part.strip() for part in parts):
        if part.startswith("tfds:") or _is_file(part):
            names.append(part)
        elif any(sign in part for sign in "*?["):
            found = sorted(name for name in tf.io.gfile.glob(part) if _is_file(name))
            if not found:
                raise UserError(f"A glob that matches a file is needed. Received: {part!r}")
            names.extend(found)
        else:
            what = "is a folder" if tf.io.gfile.isdir(part) else "does not exist"
            raise UserError(f"A file is needed. Received: {part!r}, which {what}")
    if not names:
        raise UserError(f"A file is needed. Received: {source!r}")
    return names


def nearest(name, names):
    """Returns ` (nearest: ...)` for the name that was probably meant, or nothing."""
    found = difflib.get_close_matches(str(name).lower(), [str(n).lower() for n in names], 1, 0.5)
    return "".join(f" (nearest: {n})" for n in names if str(n).lower() in found)


def _is_file(name):
    return tf.io.gfile.exists(name) and not tf.io.gfile.isdir(name)


def _format_of(name):
    stem = name.lower().removesuffix(".gz")
    for format, endings in FORMATS.items():
        if endings and stem.endswith(endings):
            return format
    raise UserError(
        "A file name that ends in .tsv, .csv, .jsonl or .txt is needed, "
        f"or format={'|'.join(FORMATS)}. Received: {name!r}"
    )


def _is_text(value):
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

    def readinto(self, buffer):
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self._file.close()
        super().close()


class _Lines:
    """Lines of a file, decoded, with their ends; counts them."""

    def __init__(self, path, encoding):
        self.path, self.encoding, self.count = path, encoding, 0

    def __iter__(self):
        try:
            with contextlib.ExitStack() as stack:
                stream = stack.enter_context(io.BufferedReader(_RawFile(self.path), 1 << 20))
                if self.path.endswith(".gz"):
                    stream = stack.enter_context(gzip.GzipFile(fileobj=stream))
                # Only \n ends a line: texts may hold \r, \x0b or U+2028.
                text = io.TextIOWrapper(
                    stream, self.encoding, errors="keras_attn.undecodable", newline="\n"
                )
                for line in stack.enter_context(text):
                    self.count += 1
                    yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"A whole .gz file is needed. Received: {self.path} ({error})") from None
        except (OSError, tf.errors.OpError) as error:
            raise UserError(f"A readable file is needed. Received: {self.path} ({error})") from None


def _without_end(line):
    return line.removesuffix("\n").removesuffix("\r")


def _split_rows(lines, format):
    """Yields (line number, fields or _BadRow); lines without a character are passed over."""
    if format == "csv":
        yield from _csv_rows(lines)
        return
    for number, line in enumerate(map(_without_end, lines), 1):
        if line:
            if format == "tsv":
                fields = line.split("\t")
            elif format == "label_text":
                fields = line.split(None, 1) if line[0].strip() else ["", line]
                fields += [""] * (2 - len(fields))
            else:
                fields = [line]
            yield number, fields


def _csv_rows(lines):
    csv.field_size_limit(2**31 - 1)  # Python's own limit is 128 KiB a field
    reader = csv.reader(lines, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, _BadRow("csv", f"Well-formed CSV is needed ({error})")
            continue
        if fields:
            yield number, fields


def _delimited_rows(lines, format, columns, header, path):
    rows = _split_rows(lines, format)
    numbers = [int(c) if str(c).isascii() and str(c).isdigit() else None for c in columns]
    names = _FIXED_COLUMNS.get(format)
    if names is None and (header or (header is None and None in numbers)):
        first = next(rows, None)
        if first is None:
            return
        if isinstance(first[1], _BadRow):
            raise UserError(f"{first[1].need}. Received: the header of {path}")
        names = [name.strip() for name in first[1]]
    indices = [
        _column_index(column, number, names, path)
        for column, number in zip(columns, numbers, strict=True)
    ]
    most = max(indices)
    for number, fields in rows:
        if isinstance(fields, _BadRow):
            yield number, fields
        elif len(fields) <= most:
            need = f"A row with at least {most + 1} fields is needed, it has {len(fields)}"
            yield number, _BadRow("fields", need)
        else:
            yield number, [fields[index] for index in indices]


def _column_index(column, number, names, path):
    if names is not None and str(column) in names:
        return names.index(str(column))
    if number is None or (names is not None and number >= len(names)):
        _refuse_column(column, names, path)
    return number


def _refuse_column(column, names, path):
    if names is None:
        raise UserError(
            f"Columns are numbers in a file without a header. Received: {column!r} for {path}"
        )
    raise UserError(
        f"A column of {path} is needed: {', '.join(names)}. "
        f"Received: {column!r}{nearest(column, names)}"
    )


def _json_rows(lines, columns, path):
    keys = [str(column) for column in columns]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            yield number, _BadRow("json", f"One JSON object a line is needed ({error})")
            continue
        if not isinstance(record, dict):
            yield number, _BadRow("json", "One JSON object a line is needed")
            continue
        for key in keys:
            if key not in record:
                _refuse_column(key, list(record), f"{path}, line {number}")
        yield number, [_json_string(record[key]) for key in keys]


def _json_string(value):
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _tfds_rows(source, columns):
    """Yields the rows of `tfds:NAME[/CONFIG][:SPLIT]`; class labels become their names."""
    import tensorflow_datasets as tfds

    name, _, split = source.removeprefix("tfds:").partition(":")
    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except (tfds.core.DatasetNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"A TFDS data set is needed ({reason}). Received: {source!r}") from None
    features = builder.info.features
    keys = [str(column) for column in columns]
    for key in keys:
        if key not in features:
            _refuse_column(key, list(features), source)
    try:
        config = tfds.ReadConfig(interleave_cycle_length=1)
        rows = builder.as_dataset(split=split or "train", read_config=config)
    except (ValueError, KeyError) as error:
        reason = str(error).strip().strip("'\"").splitlines()[0]
        raise UserError(f"A split of {name} is needed ({reason}). Received: {source!r}") from None
    for number, row in enumerate(rows.as_numpy_iterator(), 1):
        yield number, [_tfds_string(row[key], features[key]) for key in keys]


def _tfds_string(value, feature):
    if hasattr(feature, "int2str"):
        return feature.int2str(int(value)) if value >= 0 else ""  # -1: a hidden label
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
