"""Tables of texts and labels from TSV, CSV, JSONL, Parquet and plain text files, and from TFDS.

Columns are selected by name, or by number in files without a header. TSV is read as in GLUE (quotes
are ordinary characters), CSV with quoting. Rows keep the order of the file, and every row knows its
file and line, which error messages contain.
"""

import codecs
import collections
import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from keras_attn.data.sources import tfds_text
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.record_formats import as_label, as_number, as_text, file_rows
from keras_attn.data.sources.table_formats import (
    EMPTY,
    FORMATS,
    BadRow,
    describe_location,
    is_text,
    require_format,
    undecodable,
)
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.errors import UserError, check_choice

_MAX_COLUMN_NAME_WORDS = 3
_COMMON_COLUMN_NAMES = {
    "text",
    "sentence",
    "review",
    "content",
    "body",
    "document",
    "question",
    "label",
    "labels",
    "class",
    "category",
    "target",
    "sentiment",
    "score",
    "rating",
    "intent",
}
_MAX_SKIPPED_PLACES = 20  # number of skipped rows whose locations are remembered


class Row(NamedTuple):
    """A row; `text_pair`, `label` and `group` are None if there is no such column."""

    text: str
    text_pair: str | None
    label: str | None
    file: str
    line: int
    kept: tuple[str, ...] = ()  # values of the columns `keep`
    group: str | None = None


@dataclasses.dataclass(frozen=True)
class Table:
    """All rows of a source in memory.

    Attributes:
        texts: Strings, one per row.
        text_pairs: Strings, or None without such a column.
        labels: Strings, or None without such a column.
        skipped: Number of skipped rows by reason.
        lines: Line of the file where each row starts, int64.
        files: `(first row, name)` of each file.
        groups: Strings, or None without such a column.
    """

    texts: list[str]
    text_pairs: list[str] | None
    labels: list[str] | None
    skipped: dict[str, int]
    lines: np.ndarray
    files: list[tuple[int, str]]
    groups: list[str] | None = None

    def __len__(self):
        return len(self.texts)

    def take(self, rows):
        """Returns a table of the rows with these numbers, which must be in ascending order."""
        starts = [start for start, _ in self.files]
        of_row = np.searchsorted(starts, rows, side="right") - 1
        firsts = np.flatnonzero(np.diff(of_row, prepend=-1))

        def column(values):
            return None if values is None else [values[row] for row in rows]

        return Table(
            column(self.texts),
            column(self.text_pairs),
            column(self.labels),
            self.skipped,
            self.lines[rows],
            [(int(first), self.files[of_row[first]][1]) for first in firsts],
            column(self.groups),
        )

    def find_headers(self, separator=None):
        """Estimates whether the first rows of the files are headers.

        A header row has a short text and a label that does not occur in other rows.

        Args:
            separator: Separator of several labels in a row; None: one label per row.

        Returns:
            "yes" if one of the two is a common column name, or if all other labels are numbers;
            "maybe" if all other labels occur several times; else "no".
        """
        firsts = [first for first, _ in self.files]
        rest = np.setdiff1d(np.arange(len(self)), firsts)
        if self.labels is None or not len(rest):
            return "no"
        counts = collections.Counter(
            label for row in rest for label in self.labels[row].split(separator or "\0")
        )
        found = (
            "yes"
            if all(as_number(label) is not None for label in counts)
            else ("maybe" if min(counts.values()) > 1 else "no")
        )
        for text, label in ((self.texts[row], self.labels[row]) for row in firsts):
            if (
                label in counts
                or as_number(label) is not None
                or len(text.split()) > _MAX_COLUMN_NAME_WORDS
            ):
                return "no"
            if {text.strip().lower(), label.strip().lower()} & _COMMON_COLUMN_NAMES:
                found = "yes"
        return found

    def without_first_rows(self):
        """Returns the table without the first row of each file."""
        return self.take(np.setdiff1d(np.arange(len(self)), [first for first, _ in self.files]))

    def where(self, row):
        """Describes the location of a row: `train.tsv, line 7`."""
        name = [name for start, name in self.files if start <= row][-1]
        return describe_location(name, self.lines[row])


def read_table(source, *, text, text_pair=None, label=None, group=None, **options):
    """Reads a whole source into memory.

    Args:
        source: As in `iterate_rows`.
        text: As in `iterate_rows`.
        text_pair: As in `iterate_rows`.
        label: As in `iterate_rows`.
        group: As in `iterate_rows`.
        **options: As in `iterate_rows`.

    Returns:
        A `Table`.

    Raises:
        UserError: As `iterate_rows`, and if there are no rows.
    """
    columns = {"text": text, "text_pair": text_pair, "label": label, "group": group}
    rows = iterate_rows(source, **columns, **options)
    texts, pairs, labels, groups, lines, files = [], [], [], [], [], []
    for row in rows:
        if not files or files[-1][1] != row.file:
            files.append((len(texts), row.file))
        texts.append(row.text)
        pairs.append(row.text_pair)
        labels.append(row.label)
        groups.append(row.group)
        lines.append(row.line)
    if not texts:
        skipped = f" ({sum(rows.skipped.values())} skipped)" if rows.skipped else ""
        raise UserError(f"The data must have at least one row{skipped}. Received: {source!r}")
    return Table(
        texts,
        None if text_pair is None else pairs,
        None if label is None else labels,
        dict(rows.skipped),
        np.array(lines, np.int64),
        files,
        None if group is None else groups,
    )


class iterate_rows:
    """Iterates over the rows of a source, in order and in constant memory.

    Args:
        source: A file, a glob, or several of them in a list or separated by commas, each optionally
            gzipped; or `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`.
        text: Column of the text: a name of the header (or JSON field, or TFDS feature), or a number
            from 0.
        text_pair: Column of the second text of a pair, or None.
        label: Column of the label, or None.
        group: Column of the group of a row, such as the query of a document, or None.
        encoding: Encoding of the files. A UTF-8 byte order mark is dropped.
        on_bad_text: "error", or "skip" to skip and count rows that cannot be decoded or parsed, or
            have too few fields, no label or no group.
        header: Whether TSV and CSV files start with a header. None: they do, unless all columns are
            given by number.
        format: One of `FORMATS`; by default, from the file name.
        split: The default split of a TFDS name.
        unlabelled: Whether labels may be empty.
        max_line: Maximum length of a line, record or value in bytes; defaults to 16 MiB. A longer
            one is treated as a row that cannot be read, and is never held in memory as a whole.
        keep: Further columns, whose values are `kept` of a row, as text.

    Attributes:
        skipped: Counts of skipped rows by reason, including empty lines.
        skipped_places: Locations of the first skipped rows and their errors, without empty lines.

    Raises:
        UserError: At construction, if a file is missing, a glob has no matches or an option is
            unknown; during iteration, if a file is empty or a column is missing, or for a bad row
            (with file and line) or a row without a label.
    """

    def __init__(
        self,
        source,
        *,
        text,
        text_pair=None,
        label=None,
        group=None,
        encoding="utf-8",
        on_bad_text="error",
        header=None,
        format=None,
        split="train",
        unlabelled=False,
        max_line=None,
        keep=(),
    ):
        if text is None:
            raise UserError("The name of the text column is required. Received: text=None")
        if on_bad_text not in ("error", "skip"):
            raise UserError(f'on_bad_text must be "error" or "skip". Received: {on_bad_text!r}')
        if format is not None:
            check_choice("format", format, FORMATS)
        try:
            self._encoding = codecs.lookup(encoding).name
            "".encode(encoding)
        except (LookupError, TypeError, UnicodeError):  # a codec that is not a text encoding
            raise UserError(
                f"encoding must be a text encoding of Python, such as utf-8. Received: {encoding!r}"
            ) from None
        # The label is the last one, see `_file_rows`.
        self._columns = {"text": text, "text_pair": text_pair, "group": group, "label": label}
        self._keep = tuple(keep)
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
            for line, values in read([*columns, *self._keep]):
                if isinstance(values, BadRow):
                    self._handle_bad(values, source, line)
                    continue
                given = dict(zip(wanted, values, strict=False))
                kept = tuple(values[len(wanted) :])
                texts = given["text"], given.get("text_pair"), given.get("label")
                row = Row(*texts, source, line, kept, given.get("group"))
                if missing := self._missing(row):
                    requirement = f"Every row must have a {missing} in column"
                    requirement += f" {self._columns[missing]!r}"
                    self._handle_bad(BadRow(f"without {missing}", requirement), source, line)
                else:
                    yield row

    def _missing(self, row):
        """Returns "label" or "group" if it is empty and must not be."""
        if row.label is not None and not row.label.strip() and not self._unlabelled:
            return "label"
        return "group" if row.group is not None and not row.group.strip() else None

    def _handle_bad(self, bad, source, line):
        if self._on_bad_text == "error" and bad is not EMPTY:
            raise UserError(
                f"{bad.requirement}. {SKIP_ADVICE} such rows. "
                f"Received: {describe_location(source, line)}"
            )
        self.skipped[bad.reason] += 1
        if bad is not EMPTY and len(self.skipped_places) < _MAX_SKIPPED_PLACES:
            self.skipped_places.append(f"{describe_location(source, line)}: {bad.requirement}")

    def _source(self, name, format, split):
        """Returns the name of a source, and a function: columns -> (line, values or BadRow) of its
        rows.
        """
        if name.startswith("tfds:"):
            parts = tfds_text.parse(name, split)
            return "tfds:" + ":".join(parts), functools.partial(tfds_text.rows, *parts)
        format = format or require_format(name)
        return name, functools.partial(self._file_rows, name, format)

    def _file_rows(self, source, format, columns):
        label = self._columns["label"] is not None
        count = len(columns) - len(self._keep)  # the label is the last of them
        rows = file_rows(source, format, columns, self._encoding, self._header, self._max_line)
        for line, values in rows:
            if not isinstance(values, BadRow):
                texts = list(map(as_text, values))
                if label:
                    texts[count - 1] = as_label(values[count - 1])
                if any(isinstance(value, dict) for value in values[:count]):
                    values = BadRow("fields", "Text and label must be values, not nested objects")
                elif any(isinstance(value, list) for value in values[: count - label]):
                    values = BadRow("fields", "A text must be a value, not a list")
                elif not all(map(is_text, texts)):
                    escape = r", or correct an escape such as \ud83d" if format == "jsonl" else ""
                    bad = undecodable(self._encoding)
                    values = bad._replace(requirement=bad.requirement + escape)
                else:
                    values = texts
            yield line, values


def format_counts(skipped):
    """Formats counts of skipped rows by reason: `3 skipped (2 encoding, 1 csv)`."""
    each = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)
    return f"{sum(skipped.values()):,} skipped" + (f" ({each})" if each else "")
