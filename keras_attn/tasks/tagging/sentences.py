"""Sentences of words and tags from CoNLL, CoNLL-U and JSONL files."""

import collections
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.record_formats import json_rows
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import (
    EMPTY,
    BadRow,
    Lines,
    describe_location,
    is_text,
    undecodable,
    without_end,
)
from keras_attn.data.sources.text_lines import SKIP_ADVICE, has_byte_lines
from keras_attn.errors import UserError, check_choice, nearest
from keras_attn.tasks.tagging.fields import FORMATS

# Columns of CoNLL-U: https://universaldependencies.org/format.html
_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # of tokens of several words, and of empty nodes
_NUMBER = re.compile(r"[0-9]{1,9}")
_SPACES = re.compile(r" +")
_ENDINGS = {
    "conllu": (".conllu",),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "conll": (".conll", ".iob", ".iob2", ".bio", ".tsv", ".txt"),
}
# Columns that are read if none is given. CoNLL: the first one, and the last one.
_DEFAULTS = {"conll": ("0", "-1"), "conllu": ("form", "upos"), "jsonl": ("tokens", "tags")}


class Sentence(NamedTuple):
    """Words of a sentence, their tags, [] if they are not read, and where they are.

    `lines` has the line of each word, or for JSONL the number of the record only.
    """

    words: list[str]
    tags: list[str]
    file: str
    lines: list[int]

    def where(self, number: int = 0) -> str:
        """Returns the location of a word, for messages."""
        place = describe_location(self.file, self.lines[min(number, len(self.lines) - 1)])
        return f"{place}, token {number + 1}" if number >= len(self.lines) else place


@dataclasses.dataclass(frozen=True)
class Sentences:
    """All sentences of a source in memory.

    Attributes:
        rows: List of `Sentence`.
        files: Names of the files.
        skipped: Number of skipped sentences.
    """

    rows: list[Sentence]
    files: tuple[str, ...]
    skipped: int = 0

    text_pairs = None  # for `hold_out`

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def texts(self) -> list[str]:
        """The words of each sentence, joined by spaces."""
        return [" ".join(row.words) for row in self.rows]

    @property
    def words(self) -> list[list[str]]:
        """The words of each sentence."""
        return [row.words for row in self.rows]

    @property
    def num_words(self) -> int:
        return sum(len(row.words) for row in self.rows)

    def take(self, rows: Any) -> "Sentences":
        """Returns the sentences with the given numbers."""
        return dataclasses.replace(self, rows=[self.rows[row] for row in rows])


class SentenceFile:
    """Iterates over the sentences of a file; counts those that are skipped.

    Args:
        path: The file.
        format: "conll", "conllu" or "jsonl"; None: detected from the file name.
        text: Column of the words: a number, a name for CoNLL-U, a key for JSONL; None: the default.
        label: Column of the tags; None: the default.
        tags: Whether to read tags.
        encoding: Text encoding.
        on_bad_text: "error" or "skip".
        max_line: Maximum length of a line in bytes.

    Attributes:
        path: As given.
        skipped: Number of skipped sentences so far.
    """

    def __init__(
        self,
        path: str,
        *,
        format: str | None = None,
        text: str | None = None,
        label: str | None = None,
        tags: bool = True,
        encoding: str = "utf-8",
        on_bad_text: str = "error",
        max_line: int | None = None,
    ) -> None:
        if format is not None:
            check_choice("data.format (--format)", format, FORMATS)
        has_byte_lines(encoding)  # raises for an unknown one
        self.path, self.skipped, self._skips = path, 0, on_bad_text == "skip"
        self._format = format or format_of_sentences(path)
        words, labels = _DEFAULTS[self._format]
        self._columns = [text or words, *([label or labels] if tags else [])]
        self._lines = Lines(path, encoding, max_line)

    def __iter__(self) -> Iterator[Sentence]:
        found = self._records() if self._format == "jsonl" else self._blocks()
        for row in found:
            tagged = len(self._columns) > 1
            fault = _fault(row, tagged) if isinstance(row, Sentence) else row
            if fault is None:
                yield row
            elif self._skips:
                self.skipped += 1
            else:
                line, requirement = fault
                where = describe_location(self.path, line)
                raise UserError(f"{requirement}. {SKIP_ADVICE} such sentences. Received: {where}")

    def _records(self):
        """Yields a `Sentence`, or the line and what is wrong, for each JSON record."""
        for number, values in json_rows(self._lines, self._columns, display_name(self.path)):
            if values is EMPTY:
                continue
            if isinstance(values, BadRow):
                yield number, values.requirement
                continue
            words, tags = values[0], values[1] if len(values) > 1 else None
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                yield number, f"{self._columns[0]} must be a list of strings"
            elif tags is None and len(values) == 1:
                yield Sentence(words, [], self.path, [number])
            elif not isinstance(tags, list) or not all(_is_tag(tag) for tag in tags):
                yield number, f"{self._columns[1]} must be a list of strings or integers"
            else:
                yield Sentence(words, list(map(str, tags)), self.path, [number])

    def _blocks(self):
        """Yields a `Sentence`, or the line and what is wrong, for each block of lines."""
        numbered = enumerate(self._lines, 1)
        for blank, block in itertools.groupby(numbered, lambda pair: _is_blank(pair[1])):
            if blank:
                continue
            rows, fault = [], None
            for number, line in block:
                if isinstance(line, BadRow):
                    fault = fault or (number, line.requirement)
                elif not is_text(line):
                    fault = fault or (number, undecodable(self._lines.encoding).requirement)
                elif self._is_word(line):
                    rows.append((number, self._fields(line)))
            if fault or rows:
                yield fault or self._sentence(rows)

    def _is_word(self, line):
        if self._format == "conll":
            return not line.startswith("-DOCSTART-")
        # Tokens of several words, such as 1-2, precede their words; 1.1 is an empty node.
        return not line.startswith("#") and not _OTHER_ID.fullmatch(line.split("\t", 1)[0])

    def _fields(self, line):
        # Words may contain spaces only in files with tabs, and others, such as U+00A0, in all.
        line = without_end(line)
        tabs = "\t" in line or self._format == "conllu"
        return line.split("\t") if tabs else _SPACES.split(line.strip(" "))

    def _sentence(self, rows):
        size = len(rows[0][1])
        for number, fields in rows:
            if len(fields) != size:
                return number, (
                    "All words of a sentence must have the same number of columns, but this line "
                    f"has {len(fields)}, and the first one {size}"
                )
        if self._format == "conllu" and (fault := _fault_of_ids(rows)):
            return fault
        if size == 1 and len(self._columns) > 1:
            return rows[0][0], "A word and its tag must be separated by a tab or spaces"
        columns = [self._index(column, size) for column in self._columns]
        values = [[fields[index] for _, fields in rows] for index in columns]
        lines = [number for number, _ in rows]
        tags = values[1] if len(values) > 1 else []
        if self._format == "conllu" and "_" in tags:
            column = self._columns[1]
            return lines[tags.index("_")], f"A word must have a tag, but its {column} is '_' (none)"
        return Sentence(values[0], tags, self.path, lines)

    def _index(self, column, size):
        names = _CONLLU if self._format == "conllu" else ()
        if column in names:
            return names.index(column)
        try:
            number = int(column)
        except ValueError:
            number = None
        if number is None or not -size <= number < size:
            choices = ", ".join(names) or f"0 to {size - 1}"
            raise UserError(
                f"Unknown column {column!r}. The columns of {display_name(self.path)} are {choices}"
                f"{nearest(column, names)}"
            )
        return number


def read_sentences(source: Any, **options: Any) -> Sentences:
    """Reads all sentences of a source.

    Args:
        source: A file, a glob, or a list of them.
        **options: Arguments of `SentenceFile`.

    Returns:
        `Sentences`.

    Raises:
        UserError: If a file or a sentence is invalid, or there is no sentence.
    """
    files = [SentenceFile(path, **options) for path in find_files(source)]
    rows = list(itertools.chain.from_iterable(files))
    if not rows:
        raise UserError(f"The data must have at least one sentence. Received: {source}")
    return Sentences(rows, tuple(file.path for file in files), sum(f.skipped for f in files))


def format_of_sentences(name: str) -> str:
    """Returns the format of a file by its name."""
    stem = name.lower().removesuffix(".gz")
    for format, endings in _ENDINGS.items():
        if stem.endswith(endings):
            return format
    known = ", ".join(ending for found in _ENDINGS.values() for ending in found)
    raise UserError(
        f"The file name must end in {known}, or set data.format (--format) to "
        f"{', '.join(_ENDINGS)}. Received: {display_name(name)!r}"
    )


def count_tags(sentences: Sentences) -> collections.Counter:
    """Returns the number of words with each tag."""
    return collections.Counter(itertools.chain.from_iterable(row.tags for row in sentences.rows))


def encode_tags(sentences: Sentences, names: tuple[str, ...]) -> np.ndarray:
    """Returns the class indices of the tags of all words, int32 `(W,)`.

    Raises:
        UserError: If a tag is not among the names.
    """
    numbers = {name: number for number, name in enumerate(names)}
    encoded = []
    for row in sentences.rows:
        unknown = next((n for n, tag in enumerate(row.tags) if tag not in numbers), None)
        if unknown is not None:
            tag = row.tags[unknown]
            raise UserError(
                f"Tags must occur in the training data. Received: {tag!r} in {row.where(unknown)}"
                f"{nearest(tag, names)}"
            )
        encoded.append(np.array([numbers[tag] for tag in row.tags], np.int32))
    return np.concatenate(encoded)


def _fault_of_ids(rows):
    """Returns the line and what is wrong with the columns of CoNLL-U, or None.

    Args:
        rows: The line and the columns of each word.
    """
    before = 0
    for line, fields in rows:
        if len(fields) != len(_CONLLU):
            return line, f"A word of CoNLL-U must have {len(_CONLLU)} columns, separated by tabs"
        if not _NUMBER.fullmatch(fields[0]):
            return line, f"A word of CoNLL-U must begin with its number, not {fields[0]!r:.50}"
        if int(fields[0]) <= before:
            return line, (
                "The numbers of the words of a sentence must ascend, and an empty line must follow "
                f"each sentence, but word {fields[0]} follows word {before}"
            )
        before = int(fields[0])
    return None


def _is_blank(line):
    return not isinstance(line, BadRow) and not line.strip()


def _is_tag(tag):
    return isinstance(tag, str) or isinstance(tag, int) and not isinstance(tag, bool)


def _fault(row, tagged):
    """Returns the line and what is wrong with a sentence, or None."""
    line = row.lines[0]
    if not row.words:
        return line, "A sentence must have at least one token"
    if tagged and len(row.tags) != len(row.words):
        return line, (
            "A sentence must have as many tags as tokens, but has "
            f"{counted(len(row.words), 'token')} and {counted(len(row.tags), 'tag')}"
        )
    for number, values in enumerate(zip(row.words, row.tags or row.words, strict=True)):
        place = row.lines[min(number, len(row.lines) - 1)]
        if not all(value.strip() for value in values):
            return place, "Tokens and tags must not be empty"
        if not all(map(is_text, values)):
            return place, "The text must be Unicode without unpaired surrogates such as \\ud83d"
    return None
