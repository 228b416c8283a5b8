"""Text files as documents: lists of sentences, or of the parts of a text as it stands."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain, dropwhile, islice, pairwise

from keras_attn.data.sources.record_formats import file_rows, is_json_list
from keras_attn.data.sources.table_formats import EMPTY, BadRow, Lines, is_text, place, told_format
from keras_attn.data.sources.text_lines import (
    MAX_LINE,
    has_byte_lines,
    is_gzip,
    line_error,
    read_lines,
)
from keras_attn.errors import UserError
from keras_attn.text.sentences import split_long, split_sentences

RECORDS = ("jsonl", "csv", "tsv", "quoted_tsv", "parquet")  # a record is a document
FORMATS = ("auto", "lines", "paragraphs", *RECORDS)
# A document of more sentences is cut, so that a file without an empty line is read in parts.
LONGEST_DOCUMENT = 100_000
# Characters after which a part of a text ends with its word.
_LONGEST_PART = 10_000
# White space, as openai/gpt-2 cuts text by: without \x1c to \x1f, unlike Python's.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200b)))
_LINE_ENDS = re.compile(r"\r\n?|\n")
_WORD = re.compile(f"(?<=[^{_BLANKS}])(?=[{_BLANKS}])")
# A larger plain file is read in parts of this size, each by the process that is free.
PART_BYTES = 8 << 20


@dataclass(frozen=True)
class Part:
    """A part of a file: the documents that start in the bytes [start, stop), or all of it.

    `format` is that of the file where it is another than that of most files.
    """

    path: str
    start: int = 0
    stop: int | None = None
    format: str | None = None

    @property
    def end(self):
        """`stop` as a number: infinity for the end of the file."""
        return math.inf if self.stop is None else self.stop


def split_files(files, sizes, encoding, formats=None):
    """Returns the files as parts: a large one that can be cut in several.

    Args:
        files: Paths.
        sizes: Their sizes in bytes.
        encoding: Of the text.
        formats: Of each, one of `FORMATS`; None: plain text.
    """
    parts = []
    for path, size, format in zip(files, sizes, formats or [None] * len(files), strict=True):
        if (size <= 2 * PART_BYTES or is_gzip(path) or not has_byte_lines(encoding)
                or not _has_lines(path, format, encoding)):
            parts.append(Part(path))
            continue
        starts = range(0, size, PART_BYTES)
        parts.extend(Part(path, start, start + PART_BYTES) for start in starts)
    return parts


def _has_lines(path, format, encoding):
    """Whether what a line of a file is does not depend on the lines before it."""
    return format not in RECORDS or (
        format == "jsonl" and not is_json_list(Lines(path, encoding)))


def read_documents(part, format, encoding="utf-8", field="text", on_bad_text="error", counts=None,
                   verbatim=False, max_line=None):
    """Yields the documents of a part of a file.

    Args:
        part: A `Part`.
        format: "lines": a sentence a line, an empty line between documents, as
            google-research/bert. "paragraphs": a paragraph a line, or lines with empty ones between
            paragraphs; a file is a document. "jsonl", a record a line or a list of records,
            "csv", "tsv", "quoted_tsv", "parquet": a record is a document, read as by
            `tables.iterate_rows`.
        encoding: Of the text.
        field: Which field or column of a record is the text: a str, or a list of sentences.
        on_bad_text: "error" or "skip", for lines in another encoding, records without text, and
            what is longer than `max_line`.
        counts: A Counter; `lines_skipped` counts in it.
        verbatim: Whether documents are parts which, joined, are the text, with its line ends and
            indents, in place of sentences. Sentences of "lines" and of records then have a blank
            between them, and what was broken into lines of one width is a line. Lines of a file end
            with "\\n", whatever it has, and one of more than 4 MB becomes several.
        max_line: Bytes of the longest line or record; None: 16 MiB for records, and longer lines
            of "lines" and "paragraphs" are split.

    Returns:
        Iterator of lists of str. No sentence has more than 512 words.

    Raises:
        UserError: If the file is missing or damaged, or a line cannot be read.
    """
    counts = Counter() if counts is None else counts
    options = {"encoding": encoding, "on_bad_text": on_bad_text, "counts": counts}
    if format == "lines":
        lines = read_lines(part.path, part.start, **options, longest=max_line)
        documents = _documents_of_lines(lines, part)
        if verbatim:
            documents = map(spaced, documents)
    elif format == "paragraphs":
        lines = read_lines(part.path, part.start, stop=part.end, **options, longest=max_line)
        documents = _document_of_paragraphs(lines, verbatim)
    elif format == "jsonl" and (part.start or not is_json_list(Lines(part.path, encoding))):
        documents = _documents_of_records(part, field, verbatim, max_line, **options)
    elif format in RECORDS:
        documents = _documents_of_rows(part.path, format, field, verbatim, max_line, **options)
    else:
        raise UserError(f"format must be one of {', '.join(FORMATS)}. Received: format={format}")
    if verbatim:
        return documents
    return (list(chain.from_iterable(map(split_long, document))) for document in documents)


def document_of(text, verbatim=False):
    """A text as a document; see `read_documents`."""
    if verbatim:
        return list(_parts(text.split("\n"))) if text.strip() else []
    return [part for paragraph in _LINE_ENDS.split(text) for sentence in split_sentences(paragraph)
            for part in split_long(sentence)]


def spaced(sentences):
    """A document of sentences, not empty, as parts of a text with a blank between them."""
    return [sentences[0], *(" " + sentence for sentence in sentences[1:])]


def detect_format(files, encoding="utf-8"):
    """Looks at the beginning of some files and says how they hold documents.

    Files that are records by their names are looked at only if there are no others.

    Args:
        files: Paths.
        encoding: Of the text.

    Returns:
        (format, reason): a format of `read_documents`, and a phrase for the log.
    """
    plain = [path for path in files if not record_format(path)]
    if not plain:
        return record_format(files[0]), "by the names of the files"
    files, characters, several, wrapped = plain, 0, 0, 0
    for path in files[:: -(-len(files) // 16)]:
        head = _head(read_lines(path, 0, encoding, "skip", Counter()))
        sizes = [len(line) for line in head]
        counts = [len(split_sentences(line)) for line in head]
        characters += sum(sizes)
        several += sum(size for size, count in zip(sizes, counts, strict=True) if count > 1)
        wrapped += sum(sizes) if wrapped_width(head) else 0
        first = next((line for line in head if line.strip()), "").strip()
        if first.startswith(("{", "[")) and _starts_with_record(path, encoding):
            return "jsonl", "it begins with a JSON record"
    if 2 * wrapped > characters:
        return "paragraphs", "lines are broken at one width"
    share = several / max(1, characters)
    reason = f"{share:.0%} of the text is in lines of several sentences"
    return ("paragraphs" if share > 0.3 else "lines"), reason


def wrapped_width(lines):
    """Finds out whether paragraphs are broken into lines of about one width.

    They are if many lines end within a sentence that the next goes on without a capital, and most
    are about as long as the longest.

    Args:
        lines: List of str, from the beginning of a text.

    Returns:
        The width, or 0 if a line is a paragraph or a sentence.
    """
    lines = [line.strip() for line in lines]
    lengths = sorted(len(line) for line in lines if line)
    inner = [(line, after) for line, after in pairwise(lines) if line and after]
    if len(inner) < 3:
        return 0
    width = lengths[int(0.95 * (len(lengths) - 1))]
    full = sum(len(line) > 0.75 * width for line, _ in inner)
    go_on = sum(line[-1] not in ".!?:;\"'”’)" and after[0].islower() for line, after in inner)
    wrapped = width <= 200 and full > 0.5 * len(inner) and go_on > 0.4 * len(inner)
    return width if wrapped else 0


def _head(lines, most=1 << 18):
    """Returns the first lines, about as many characters as given."""
    head = []
    for _, line in lines:
        head.append(line)
        most -= len(line) + 1
        if most <= 0:
            break
    return head


def record_format(path):
    """The format of a file of records, by its name; None of other files."""
    format = told_format(path)
    return format if format in RECORDS else None


def _starts_with_record(path, encoding):
    """Returns whether a file begins with a JSON record, or a list of them, however long."""
    rows = file_rows(path, "jsonl", [], encoding)
    try:
        first = next((row for _, row in rows if row is not EMPTY), EMPTY)
    except UserError:  # what begins like a list and is none
        return False
    return not isinstance(first, BadRow)


def _documents_of_lines(lines, part):
    # A document belongs to the part in which the empty line before it starts.
    document = []
    ours = part.start == 0
    for position, line in lines:
        line = line.strip()
        if line and ours:
            document.append(line)
        ended = not line or len(document) >= LONGEST_DOCUMENT
        if ended and document:
            yield document
            document = []
        if not line:
            ours = True
            if position >= part.end:
                return
    if document:
        yield document


def _document_of_paragraphs(lines, verbatim):
    lines = (line for _, line in lines)
    head = list(islice(lines, 2000))
    width = wrapped_width(head)
    lines = chain(head, lines)
    if width:
        lines = filter(None, _joined(map(str.strip, lines), width))
    if verbatim:
        parts = _parts(dropwhile(lambda line: not line.strip(), lines))
        parts = ([part] for part in parts if part.strip())
    else:
        parts = (split_sentences(line.strip()) for line in lines)
    document = []
    for part in parts:
        document.extend(part)
        if len(document) >= LONGEST_DOCUMENT:
            yield document
            document = []
    if document:
        yield document


def _joined(lines, width):
    """Yields the paragraphs of lines of about one width.

    A paragraph ends with an empty line; or with one so short that more would have fitted, as in
    headings and in books without empty lines.
    """
    paragraph = []
    for line in lines:
        if line:
            paragraph.append(line)
        if paragraph and (len(line) < 0.6 * width or len(paragraph) >= 1000):
            yield " ".join(paragraph)
            paragraph = []
    yield " ".join(paragraph)


def _parts(lines):
    """Yields parts of a text, each but the first from the blanks before a line or a word on.

    No byte pair goes across their borders, so that they have the ids of the whole text.
    """
    held = None  # blanks at the end of what was read, or None before it
    for line in lines:
        line = line if held is None else held + "\n" + line
        part = line.rstrip(_BLANKS)
        held = line[len(part):]
        start = 0
        while len(part) - start > _LONGEST_PART and (
                found := _WORD.search(part, start + _LONGEST_PART)):
            yield part[start:found.start()]
            start = found.start()
        if part:
            yield part[start:]
    if held:
        yield held


def _documents_of_rows(path, format, field, verbatim, max_line, encoding, on_bad_text, counts):
    """The documents of a table, or of a list of JSON."""
    for number, values in file_rows(path, format, [field], encoding, max_line=max_line):
        if values is EMPTY:
            continue
        document = None
        if isinstance(values, BadRow):
            need = values.need
        elif isinstance(values[0], str) and format != "jsonl" and not is_text(values[0]):
            need = f"The text must be {encoding}; set data.encoding (--encoding)"
        else:
            need = f"A record must have text in its field {field!r}"
            document = _document_of_value(values[0], verbatim)
        if document is None and on_bad_text == "error":
            raise UserError(f"{need}; on_bad_text=skip leaves such records out. "
                            f"Received: {place(path, number)}")
        if document is None:
            counts["lines_skipped"] += 1
        elif document:
            yield document


def _documents_of_records(part, field, verbatim, max_line, encoding, on_bad_text, counts):
    lines = read_lines(part.path, part.start, encoding, on_bad_text, counts, part.end,
                       max_line or MAX_LINE)
    for position, line in lines:
        if not line.strip():
            continue
        record = _record(line)
        document = None if record is None else _document_of_value(record.get(field), verbatim)
        if document:
            yield document
        elif document is None and on_bad_text == "skip":
            counts["lines_skipped"] += 1
        elif document is None:
            needed = (f"A line must be a JSON object with text in its field {field!r} (data.field, "
                      "--field)")
            raise line_error(part.path, position, needed, encoding, _what_is_wrong(record, field))


def _document_of_value(value, verbatim):
    """The document of a field, a text or a list of sentences; None of another value."""
    if isinstance(value, str):
        return document_of(_encodable(value), verbatim)
    if isinstance(value, list) and all(isinstance(sentence, str) for sentence in value):
        document = [s for sentence in value if (s := _encodable(sentence).strip())]
        return spaced(document) if verbatim and document else document
    return None


def _what_is_wrong(record, field):
    if record is None:
        return ", which is not a JSON object"
    if field in record:
        return ", where that field is not text"
    return f", which has the fields {', '.join(map(str, record))}"


def _encodable(text):
    """Drops halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def _record(line):
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # nested too deeply
        return None
    return record if isinstance(record, dict) else None
