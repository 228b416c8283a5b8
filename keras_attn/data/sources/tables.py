"""Rows of text and label from TSV, CSV, JSONL, Parquet and plain files, and from TFDS.

Columns are chosen by name, or by number in files without a header. TSV is read
as GLUE writes it (quotes are ordinary characters), CSV with quoting. Rows keep
the order of the file, and every row knows its file and line, so that an error
can say where it is.
"""

import codecs
import collections
import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from keras_attn.data.sources import tfds_text
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.record_formats import as_label, as_text, file_rows, number_of
from keras_attn.data.sources.table_formats import (
    EMPTY,
    FORMATS,
    BadRow,
    format_of,
    is_text,
    place,
)
from keras_attn.errors import UserError, check_choice

MOST_WORDS_OF_A_NAME = 3  # of a column
USUAL_NAMES = {"text", "sentence", "review", "content", "body", "document", "question", "label",
               "labels", "class", "category", "target", "sentiment", "score", "rating", "intent"}
MOST_PLACES = 20  # of skipped rows, that are remembered


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

    def take(self, rows):
        """Returns the table of some rows, given by number in ascending order."""
        starts = [start for start, _ in self.files]
        of_row = np.searchsorted(starts, rows, side="right") - 1
        firsts = np.flatnonzero(np.diff(of_row, prepend=-1))

        def column(values):
            return None if values is None else [values[row] for row in rows]

        return Table(
            column(self.texts), column(self.text_pairs), column(self.labels), self.skipped,
            self.lines[rows], [(int(first), self.files[of_row[first]][1]) for first in firsts],
        )

    def find_headers(self, separator=None):
        """Whether the first rows of the files are names of columns.

        Such a row has a short text and a label that no other row has.

        Args:
            separator: Of several labels in a row; None: there is one.

        Returns:
            "yes" if one of the two is a usual name, or if all other labels are numbers; "maybe"
            if all other labels occur several times; else "no".
        """
        firsts = [first for first, _ in self.files]
        rest = np.setdiff1d(np.arange(len(self)), firsts)
        if self.labels is None or not len(rest):
            return "no"
        counts = collections.Counter(
            label for row in rest for label in self.labels[row].split(separator or "\0"))
        found = "yes" if all(number_of(label) is not None for label in counts) else (
            "maybe" if min(counts.values()) > 1 else "no")
        for text, label in ((self.texts[row], self.labels[row]) for row in firsts):
            if (label in counts or number_of(label) is not None
                    or len(text.split()) > MOST_WORDS_OF_A_NAME):
                return "no"
            if {text.strip().lower(), label.strip().lower()} & USUAL_NAMES:
                found = "yes"
        return found

    def without_first_rows(self):
        """The table without the first row of each file."""
        return self.take(np.setdiff1d(np.arange(len(self)), [first for first, _ in self.files]))

    def where(self, row):
        """Says where a row came from: `train.tsv, line 7`."""
        name = [name for start, name in self.files if start <= row][-1]
        return place(name, self.lines[row])


def read_table(source, *, text, text_pair=None, label=None, **options):
    """Reads a whole source into memory.

    Args:
        source, text, text_pair, label, options: As in `iterate_rows`.

    Returns:
        A `Table`.

    Raises:
        UserError: As `iterate_rows`, and if there is no row at all.
    """
    rows = iterate_rows(source, text=text, text_pair=text_pair, label=label, **options)
    texts, pairs, labels, lines, files = [], [], [], [], []
    for row in rows:
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
    """Reads a source row by row, in order, in constant memory but for a list of JSON.

    Args:
        source: A file, a glob, a list of them or the same separated by commas,
            each optionally gzipped; or `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`.
        text, text_pair, label: Columns: a name of the header (or JSON field, or
            TFDS feature), or a number from 0.
        encoding: Of the files. A UTF-8 byte order mark is dropped.
        on_bad_text: "error", or "skip" to leave out and count rows that cannot
            be decoded or parsed, or have too few fields or no label.
        header: Whether TSV and CSV files start with a line of names. None: they
            do, unless all columns are given as numbers.
        format: One of `FORMATS`; None: from the file's name.
        split: The split of a TFDS name without one.
        unlabelled: Whether a label may be empty.
        max_line: Bytes of the longest line, record or value; None: 16 MiB. A longer one is a row
            that cannot be read, and is never held in memory as a whole.

    Attributes:
        skipped: Counts of rows left out, by reason; empty lines among them.
        skipped_places: Where the first of them are, without empty lines, and what they lack.

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
        split="train",
        unlabelled=False,
        max_line=None,
    ):
        if text is None:
            raise UserError("The name of the text column is needed. Received: text=None")
        if on_bad_text not in ("error", "skip"):
            raise UserError(f'on_bad_text must be "error" or "skip". Received: {on_bad_text!r}')
        if format is not None:
            check_choice("format", format, FORMATS)
        try:
            self._encoding = codecs.lookup(encoding).name
            "".encode(encoding)
        except (LookupError, TypeError, UnicodeError):  # of bytes to bytes, or of no text at all
            raise UserError("encoding must be known to Python, and of text. "
                            f"Received: {encoding!r}") from None
        self._columns = {"text": text, "text_pair": text_pair, "label": label}
        self._on_bad_text = on_bad_text
        self._header = header
        self._unlabelled = unlabelled
        self._max_line = max_line
        self._sources = [
            self._source(name, format, split) for name in find_files(source, tfds=True)
        ]
        self.skipped = collections.Counter()
        self.skipped_places = []

    def __iter__(self):
        self.skipped.clear()
        self.skipped_places.clear()
        wanted = [name for name, column in self._columns.items() if column is not None]
        columns = [self._columns[name] for name in wanted]
        for source, read in self._sources:
            for line, values in read(columns):
                if isinstance(values, BadRow):
                    self._refuse(values, source, line)
                    continue
                row = Row(*_in_order(wanted, values), source, line)
                if row.label is None or row.label.strip() or self._unlabelled:
                    yield row
                else:
                    need = f"A label in column {self._columns['label']!r} is needed in every row"
                    self._refuse(BadRow("without label", need), source, line)

    def _refuse(self, bad, source, line):
        if self._on_bad_text == "error" and bad is not EMPTY:
            raise UserError(
                f"{bad.need}; on_bad_text=skip leaves such rows out. "
                f"Received: {place(source, line)}"
            )
        self.skipped[bad.reason] += 1
        if bad is not EMPTY and len(self.skipped_places) < MOST_PLACES:
            self.skipped_places.append(f"{place(source, line)}: {bad.need}")

    def _source(self, name, format, split):
        """Returns its name and a function: columns -> (line, their values or BadRow) of rows."""
        if name.startswith("tfds:"):
            parts = tfds_text.parse(name, split)
            return "tfds:" + ":".join(parts), functools.partial(tfds_text.rows, *parts)
        format = format or format_of(name)
        return name, functools.partial(self._file_rows, name, format)

    def _file_rows(self, source, format, columns):
        label = self._columns["label"] is not None  # the last of the columns
        rows = file_rows(source, format, columns, self._encoding, self._header, self._max_line)
        for line, values in rows:
            if not isinstance(values, BadRow):
                texts = list(map(as_text, values))
                if label:
                    texts[-1] = as_label(values[-1])
                if any(isinstance(value, dict) for value in values):
                    need = "Text and label must be values, not objects with fields of their own"
                    values = BadRow("fields", need)
                elif not all(map(is_text, texts)):
                    need = f"Text in {self._encoding} is needed; set data.encoding (--encoding)"
                    values = BadRow("encoding", need)
                else:
                    values = texts
            yield line, values


def told_counts(skipped):
    """Counts by reason in words: `3 (2 encoding, 1 csv)`."""
    each = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"{sum(skipped.values()):,}" + (f" ({each})" if each else "")


def _in_order(wanted, values):
    given = dict(zip(wanted, values, strict=True))
    return given["text"], given.get("text_pair"), given.get("label")
