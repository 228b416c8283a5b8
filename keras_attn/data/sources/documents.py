"""Text files as documents: lists of sentences, or of consecutive parts of raw text."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain, dropwhile, islice, pairwise

from keras_attn.data.sources.record_formats import file_rows, is_json_list
from keras_attn.data.sources.table_formats import (
    EMPTY,
    BadRow,
    Lines,
    describe_location,
    format_from_name,
    is_text,
    undecodable,
)
from keras_attn.data.sources.text_lines import (
    MAX_LINE,
    SKIP_ADVICE,
    has_byte_lines,
    is_gzip,
    line_error,
    read_lines,
)
from keras_attn.errors import UserError
from keras_attn.text.sentences import split_long, split_sentences

RECORDS = ("jsonl", "csv", "tsv", "quoted_tsv", "parquet")  # one document per record
FORMATS = ("auto", "lines", "paragraphs", *RECORDS)
# Longer documents (in sentences) are split, so that files without empty lines fit in memory.
MAX_DOCUMENT_SENTENCES = 100_000
# A part of a text ends at the first word end after this number of characters.
_PART_CHARACTERS = 10_000
# Whitespace for openai/gpt-2's tokenizer: unlike Python's, without \x1c to \x1f.
_WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_LINE_ENDS = re.compile(r"\r\n?|\n")
_WORD_END = re.compile(f"(?<=[^{_WHITESPACE}])(?=[{_WHITESPACE}])")
# Larger uncompressed files are read in parts of this size, by several processes.
PART_BYTES = 8 << 20


@dataclass(frozen=True)
class Part:
    """A part of a file: the documents that start in the bytes [start, stop), or the whole file.

    `format` is set if it differs from the format of most files.
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
    """Splits files into parts: several for a large file that can be split.

    Args:
        files: Paths.
        sizes: Sizes in bytes.
        encoding: Text encoding.
        formats: Format of each file, one of `FORMATS`; None: plain text.
    """
    parts = []
    for path, size, format in zip(files, sizes, formats or [None] * len(files), strict=True):
        if (
            size <= 2 * PART_BYTES
            or is_gzip(path)
            or not has_byte_lines(encoding)
            or not _has_lines(path, format, encoding)
        ):
            parts.append(Part(path))
            continue
        starts = range(0, size, PART_BYTES)
        parts.extend(Part(path, start, start + PART_BYTES) for start in starts)
    return parts


def _has_lines(path, format, encoding):
    """Whether the lines of a file can be parsed independently of the preceding lines."""
    return format not in RECORDS or (format == "jsonl" and not is_json_list(Lines(path, encoding)))


def read_documents(
    part,
    format,
    encoding="utf-8",
    field="text",
    on_bad_text="error",
    counts=None,
    verbatim=False,
    max_line=None,
):
    """Yields the documents of a part of a file.

    Args:
        part: A `Part`.
        format: "lines": one sentence per line, with empty lines between documents, as in
            google-research/bert. "paragraphs": one paragraph per line, or paragraphs separated by
            empty lines; a file is a document. "jsonl" (one record per line, or a list of records),
            "csv", "tsv", "quoted_tsv" and "parquet": a record is a document, read as in
            `tables.iterate_rows`.
        encoding: Text encoding.
        field: Field or column of the text: a str, or a list of sentences.
        on_bad_text: "error" or "skip", for lines that cannot be decoded, records without text, and
            lines or records longer than `max_line`.
        counts: A Counter whose `lines_skipped` is incremented.
        verbatim: Whether documents are consecutive parts of the raw text, with its line breaks and
            indentation, instead of sentences. Then sentences of "lines" and of records are joined
            with spaces, and text that is wrapped at a fixed width is unwrapped. Line ends become
            "\\n", and a line of more than 4 MB is split.
        max_line: Maximum length of a line or record in bytes. By default, 16 MiB for records, and
            longer lines of "lines" and "paragraphs" are split.

    Returns:
        Iterator of lists of str. Sentences have at most 512 words.

    Raises:
        UserError: If the file is missing or damaged, or a line cannot be read.
    """
    counts = Counter() if counts is None else counts
    options = {"encoding": encoding, "on_bad_text": on_bad_text, "counts": counts}
    if format == "lines":
        lines = read_lines(part.path, part.start, **options, longest=max_line)
        documents = _documents_of_lines(lines, part)
        if verbatim:
            documents = map(join_with_spaces, documents)
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
    """Converts a text to a document; see `read_documents`."""
    if verbatim:
        return list(_parts(text.split("\n"))) if text.strip() else []
    return [
        part
        for paragraph in _LINE_ENDS.split(text)
        for sentence in split_sentences(paragraph)
        for part in split_long(sentence)
    ]


def join_with_spaces(sentences):
    """Converts a non-empty list of sentences to parts of a text in which spaces separate them."""
    return [sentences[0], *(" " + sentence for sentence in sentences[1:])]


def detect_format(files, encoding="utf-8"):
    """Detects the document format from the beginning of some files.

    Files that are records according to their names are only considered if there are no others.

    Args:
        files: Paths.
        encoding: Text encoding.

    Returns:
        (format, reason): a format of `read_documents`, and a phrase for the log, which is part of
        the stored plan, so rewording it would invalidate prepared folders.
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
    """Detects whether paragraphs are wrapped at a fixed width.

    They are if many lines end inside of a sentence and the next starts without a capital letter,
    and most lines are about as long as the longest.

    Args:
        lines: List of str, the beginning of a text.

    Returns:
        The width, or 0 if each line is a paragraph or a sentence.
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
    """Returns the first lines, of about `most` characters."""
    head = []
    for _, line in lines:
        head.append(line)
        most -= len(line) + 1
        if most <= 0:
            break
    return head


def record_format(path):
    """Returns the record format for a file name, or None for other files."""
    format = format_from_name(path)
    return format if format in RECORDS else None


def _starts_with_record(path, encoding):
    """Returns whether a file starts with a JSON record, or a list of them, of any length."""
    rows = file_rows(path, "jsonl", [], encoding)
    try:
        first = next((row for _, row in rows if row is not EMPTY), EMPTY)
    except UserError:  # starts like a list, but is not one
        return False
    return not isinstance(first, BadRow)


def _documents_of_lines(lines, part):
    # A document belongs to the part that contains the start of the empty line before it.
    document = []
    ours = part.start == 0
    for position, line in lines:
        line = line.strip()
        if line and ours:
            document.append(line)
        ended = not line or len(document) >= MAX_DOCUMENT_SENTENCES
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
        lines = filter(None, _unwrap(map(str.strip, lines), width))
    if verbatim:
        parts = _parts(dropwhile(lambda line: not line.strip(), lines))
        parts = ([part] for part in parts if part.strip())
    else:
        parts = (split_sentences(line.strip()) for line in lines)
    document = []
    for part in parts:
        document.extend(part)
        if len(document) >= MAX_DOCUMENT_SENTENCES:
            yield document
            document = []
    if document:
        yield document


def _unwrap(lines, width):
    """Joins wrapped lines to paragraphs.

    A paragraph ends at an empty line, or after a line that is clearly shorter than the width, as
    for headings and in books without empty lines.
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
    """Yields parts of a text; all but the first start with the whitespace before a line or a word.

    No byte pair crosses the boundaries, so the parts have the token ids of the whole text.
    """
    held = None  # trailing whitespace of the text so far, or None at its start
    for line in lines:
        line = line if held is None else held + "\n" + line
        part = line.rstrip(_WHITESPACE)
        held = line[len(part) :]
        start = 0
        while len(part) - start > _PART_CHARACTERS and (
            found := _WORD_END.search(part, start + _PART_CHARACTERS)
        ):
            yield part[start : found.start()]
            start = found.start()
        if part:
            yield part[start:]
    if held:
        yield held


def _documents_of_rows(path, format, field, verbatim, max_line, encoding, on_bad_text, counts):
    """Yields the documents of a table, or of a JSON list."""
    for number, values in file_rows(path, format, [field], encoding, max_line=max_line):
        if values is EMPTY:
            continue
        document = None
        if isinstance(values, BadRow):
            requirement = values.requirement
        elif isinstance(values[0], str) and format != "jsonl" and not is_text(values[0]):
            requirement = undecodable(encoding).requirement
        else:
            requirement = f"The field {field!r} of a record must be text"
            document = _document_of_value(values[0], verbatim)
        if document is None and on_bad_text == "error":
            raise UserError(
                f"{requirement}. {SKIP_ADVICE} such records. "
                f"Received: {describe_location(path, number)}"
            )
        if document is None:
            counts["lines_skipped"] += 1
        elif document:
            yield document


def _documents_of_records(part, field, verbatim, max_line, encoding, on_bad_text, counts):
    lines = read_lines(
        part.path, part.start, encoding, on_bad_text, counts, part.end, max_line or MAX_LINE
    )
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
            needed = (
                f"A line must be a JSON object with text in its field {field!r} (data.field, "
                "--field)"
            )
            raise line_error(part.path, position, needed, encoding, _what_is_wrong(record, field))


def _document_of_value(value, verbatim):
    """Converts a field, a text or a list of sentences, to a document; None for other values."""
    if isinstance(value, str):
        return document_of(_encodable(value), verbatim)
    if isinstance(value, list) and all(isinstance(sentence, str) for sentence in value):
        document = [s for sentence in value if (s := _encodable(sentence).strip())]
        return join_with_spaces(document) if verbatim and document else document
    return None


def _what_is_wrong(record, field):
    if record is None:
        return ", which is not a JSON object"
    if field in record:
        return ", where that field is not text"
    return f", which has the fields {', '.join(map(str, record))}"


def _encodable(text):
    """Drops unpaired surrogates, which JSON can contain but UTF-8 cannot."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def _record(line):
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return None
    return record if isinstance(record, dict) else None
