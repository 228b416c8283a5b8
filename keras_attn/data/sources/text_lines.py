"""Streams the lines of text files: any size, filesystem and encoding, optionally gzipped."""

import codecs
import contextlib
import gzip
import math
import re
import zlib

from keras_attn.counts import counted
from keras_attn.data.sources.streams import display_name
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile

# Start of the advice in errors of rows that can be skipped: the config field, and the flag of
# commands without a config.
SKIP_ADVICE = "Set data.on_bad_text=skip (--on_bad_text) to skip"
_BLOCK = 1 << 22
# Default of data.max_line: the maximum length of a table row or a record in bytes.
MAX_LINE = 1 << 24
# Longer lines of plain text are split, so that a file without line ends need not fit in memory.
SPLIT_LINE = 1 << 22
# The first bytes of binary files, their format, and what to do.
_BINARY = [
    (re.compile(rb"\x1f\x8b"), "gzip", "Rename it so that its name ends in .gz"),
    (re.compile(rb"BZh\d1AY&SY"), "bzip2", "Decompress it"),
    (re.compile(rb"\xfd7zXZ\0"), "xz", "Decompress it"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd", "Decompress it"),
    (re.compile(rb"PK\x03\x04"), "zip or office", "Extract it, or save it as text"),
    (re.compile(rb"PAR1\x15"), "Parquet", "Set data.format=parquet (--format)"),
]


def is_gzip(path):
    """Returns whether a file is gzipped according to its name."""
    return path.lower().endswith(".gz")


def has_byte_lines(encoding):
    """Returns whether the byte `\\n` is always a line feed, so that a file can be split at any
    line.

    Raises:
        UserError: If Python does not support this text encoding.
    """
    try:
        name = codecs.lookup(encoding).name
        line_feed = "\n".encode(encoding)
    except (LookupError, TypeError, UnicodeError) as error:
        raise UserError(
            f"encoding must be a text encoding of Python, such as utf-8. Received: {encoding}"
        ) from error
    # Not for UTF-16 and EBCDIC, nor for UTF-7, whose state can persist after a line feed.
    return line_feed.endswith(b"\n") and not name.startswith(("utf-16", "utf-32", "utf-7"))


def read_lines(
    path, start=0, encoding="utf-8", on_bad_text="error", counts=None, stop=math.inf, longest=None
):
    """Yields the lines of a file that start in [start, stop).

    A byte order mark and line ends (LF, CRLF, CR) are dropped.

    Args:
        path: The file, gzipped if its name ends in `.gz`.
        start: First byte. Not supported for gzipped files and encodings without `has_byte_lines`,
            such as UTF-16.
        stop: End byte, exclusive, with the same restriction.
        encoding: Text encoding.
        on_bad_text: "error" or "skip", for lines that are too long or cannot be decoded.
        counts: A Counter whose `lines_skipped` is incremented.
        longest: Maximum length in bytes of a line that is a record. If None, a line of more than 4
            MB is yielded in several pieces, all with its position.

    Returns:
        Iterator of (position, str): the start of the line in bytes, in the unzipped file and, for
        wide encodings, as UTF-8; and the text.

    Raises:
        UserError: If the file is missing or damaged, or a line is too long or cannot be decoded.
    """
    for position, line in _byte_lines(path, start, stop, encoding, longest):
        if position == 0 and line:
            line = line.removeprefix(codecs.BOM_UTF8)
        text, fault = _decode(line, encoding, longest)
        if fault:
            if on_bad_text == "error":
                needed, found = fault
                needed = f"{needed}. {SKIP_ADVICE} such lines"
                raise line_error(path, position, needed, encoding, f" ({found})")
            counts["lines_skipped"] += 1
            continue
        text = text.rstrip("\r")
        if "\r" in text:
            for part in text.split("\r"):
                yield position, part
        else:
            yield position, text


def line_error(path, position, needed, encoding="utf-8", found=""):
    """Returns a UserError that names the file and the line that starts at a position.

    Args:
        path: Path of the file.
        position: Position of the line, as yielded by `read_lines`.
        needed: What the line must be.
        encoding: Text encoding.
        found: What the line is, appended to its number.
    """
    number = _line_number(path, position, encoding)
    return UserError(f"{needed}. Received: {display_name(path)}, line {number}{found}")


def require_text(path, start):
    """Raises a `UserError` for a compressed or binary file, which would be read as text.

    Args:
        path: Path of the file.
        start: Its first 10 bytes.
    """
    for magic, name, advice in _BINARY:
        if magic.match(start):
            raise UserError(f"{display_name(path)} is a {name} file. {advice}")


@contextlib.contextmanager
def open_bytes(path):
    """Opens a file for reading, unzipped; read errors become a UserError."""
    try:
        with gfile.open_file(path, "rb") as file:
            if is_gzip(path):
                with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
                    yield unzipped
            else:
                require_text(path, file.read(10))
                file.seek(0)
                yield file
    except FileNotFoundError as error:
        raise UserError(f"The file {display_name(path)} does not exist") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"Cannot read {display_name(path)}: the gzip file is truncated or damaged ({error})"
        ) from error
    except OSError as error:
        raise UserError(f"Cannot read {display_name(path)}: {reason_of(error)}") from error


def _byte_lines(path, start, stop, encoding, longest):
    """Yields (position, bytes without the LF) of each line that starts in [start, stop).

    With `longest`, a longer line is replaced by None; without, it is yielded in pieces.
    """
    with _open_lines(path, encoding) as file:
        position = max(0, start - 1)
        if position:
            file.seek(position)
        pending = b""
        before = 0  # bytes of a long line that were already yielded or dropped
        synced = start == 0
        while block := file.read(_BLOCK):
            lines = (pending + block).split(b"\n")
            pending = lines.pop()
            for line in lines:
                if position >= stop:
                    return
                if synced:
                    yield position, _none_if_longer(line, before, longest)
                synced = True
                position += before + len(line) + 1
                before = 0
            if not synced:  # this line belongs to an earlier part
                position += len(pending)
                pending = b""
            if position >= stop:
                return
            if longest is not None and before + len(pending) > longest:
                before += len(pending)
                pending = b""
            while longest is None and len(pending) > SPLIT_LINE:
                cut = _split_position(pending)
                yield position, pending[:cut]
                before += cut
                pending = pending[cut:]
        if synced and before + len(pending):
            yield position, _none_if_longer(pending, before, longest)


def _none_if_longer(line, before, longest):
    return line if longest is None or before + len(line) <= longest else None


def _split_position(line):
    space = line.rfind(b" ", 0, SPLIT_LINE)
    if space > 0:
        return space
    # Split between two UTF-8 characters, whose continuation bytes are 10xxxxxx.
    return next(n for n in range(SPLIT_LINE, 0, -1) if line[n] & 0xC0 != 0x80)


def _decode(line, encoding, longest):
    """Returns (text, None), or None and the reason: (requirement, what was found)."""
    if line is None:
        return None, (
            f"A line must have at most {counted(longest, 'byte')}; raise data.max_line "
            "(--max_line) for longer ones",
            "longer",
        )
    wide = not has_byte_lines(encoding)
    needed = f"The text must be {encoding}; set data.encoding (--encoding)"
    try:
        text = line.decode("utf-8" if wide else encoding)
    except UnicodeDecodeError as error:
        return None, (needed, error.reason)
    if wide and "\ufffd" in text:
        return None, (needed, "a character that cannot be decoded")
    return text, None


def _line_number(path, position, encoding):
    """Counts the lines before a position by reading the file again, for error messages only."""
    number = 1
    with _open_lines(path, encoding) as file:
        while position > 0 and (block := file.read(_BLOCK)):
            number += block[:position].count(b"\n")
            position -= len(block)
    return number


@contextlib.contextmanager
def _open_lines(path, encoding):
    """Opens a file as bytes with `\\n` line ends; wide encodings are converted to UTF-8."""
    with open_bytes(path) as file:
        try:
            yield file if has_byte_lines(encoding) else _AsUTF8(file, encoding)
        except UnicodeError as error:  # UTF-16 without a byte order mark
            raise UserError(
                f"Cannot decode {display_name(path)} as {encoding}: {error}. "
                "Set data.encoding (--encoding)"
            ) from None


class _AsUTF8:
    """Reads a file of another encoding as UTF-8; undecodable bytes become U+FFFD."""

    def __init__(self, file, encoding):
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def read(self, size):
        """Returns the text of about `size` bytes of the file, or nothing at the end of the file."""
        text = ""
        while not text and (block := self._file.read(size)):
            text = self._decoder.decode(block)
        text = text or self._decoder.decode(b"", final=True)
        # UTF-7 can contain unpaired surrogates; lines with them are rejected later.
        return text.encode("utf-8", "surrogatepass")
