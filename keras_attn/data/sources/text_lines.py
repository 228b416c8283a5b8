"""Lines of text files of any size, from any filesystem: gzipped, with any encoding."""

import codecs
import contextlib
import gzip
import math
import zlib

import tensorflow as tf

from keras_attn.counts import counted
from keras_attn.data.sources.streams import shown
from keras_attn.errors import UserError

_BLOCK = 1 << 22
# Bytes of the longest line of a table, or of the longest record, unless data.max_line says more.
MAX_LINE = 1 << 24
# A longer line is cut, so that a file without line ends does not have to fit in memory.
LONGEST_LINE = 1 << 22


def is_gzip(path):
    """Returns whether the name says that the file is gzipped."""
    return path.lower().endswith(".gz")


def has_byte_lines(encoding):
    """Returns whether only a line feed is the byte `\\n`, so that a file can be cut anywhere.

    Raises:
        UserError: If Python knows no such encoding of text.
    """
    try:
        name = codecs.lookup(encoding).name
        line_feed = "\n".encode(encoding)
    except (LookupError, TypeError, UnicodeError) as error:
        raise UserError(
            f"encoding must be one that Python knows, such as utf-8. Received: {encoding}"
        ) from error
    # Not so in UTF-16 and EBCDIC; UTF-7 has states that go on after a line feed.
    return line_feed.endswith(b"\n") and not name.startswith(("utf-16", "utf-32", "utf-7"))


def read_lines(
    path, start=0, encoding="utf-8", on_bad_text="error", counts=None, stop=math.inf, longest=None
):
    """Yields the lines of a file that start in [start, stop).

    A byte-order mark and line ends (LF, CRLF, CR) are dropped.

    Args:
        path: The file; gzipped if its name ends with `.gz`.
        start, stop: Bytes of the file; neither of a gzipped one nor of an encoding without
            `has_byte_lines`, such as UTF-16.
        encoding: Of the text.
        on_bad_text: For a line that is too long or not in this encoding, "error" or "skip".
        counts: A Counter; `lines_skipped` counts in it.
        longest: Bytes that a line, which is a record, may have. Without it, a line of more than
            4 MB comes in several pieces, all with its position.

    Returns:
        Iterator of (position, str): the byte where the line starts, unzipped and, of a wide
        encoding, as UTF-8; and the text.

    Raises:
        UserError: If the file is missing or damaged, or for a line in another encoding or too long.
    """
    for position, line in _byte_lines(path, start, stop, encoding, longest):
        if position == 0 and line:
            line = line.removeprefix(codecs.BOM_UTF8)
        text, fault = _decode(line, encoding, longest)
        if fault:
            if on_bad_text == "error":
                needed, found = fault
                needed = f"{needed}, or leave such lines out with on_bad_text=skip"
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
        path, position, encoding: Of a line of `read_lines`.
        needed: What it must be.
        found: What it is, to stand after its number.
    """
    number = _line_number(path, position, encoding)
    return UserError(f"{needed}. Received: {shown(path)}, line {number}{found}")


@contextlib.contextmanager
def open_bytes(path):
    """Opens a file for reading, unzipped; what fails while it is read becomes a UserError."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            if is_gzip(path):
                with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
                    yield unzipped
            else:
                yield file
    except tf.errors.NotFoundError as error:
        raise UserError(f"The text must be in an existing file. Received: {shown(path)}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"A .gz file must be a whole gzip file. Received: {shown(path)} ({error})"
        ) from error
    except (tf.errors.PermissionDeniedError, tf.errors.FailedPreconditionError) as error:
        raise UserError(
            f"The text must be in a readable file. Received: {shown(path)} ({error.message})"
        ) from error


def _byte_lines(path, start, stop, encoding, longest):
    """Yields (position, bytes without the LF) of each line that starts in [start, stop).

    With `longest`, a longer line is None; without, it comes in pieces.
    """
    with _open_lines(path, encoding) as file:
        position = max(0, start - 1)
        if position:
            file.seek(position)
        pending = b""
        before = 0  # bytes of a long line that were yielded or dropped already
        synced = start == 0
        while block := file.read(_BLOCK):
            lines = (pending + block).split(b"\n")
            pending = lines.pop()
            for line in lines:
                if position >= stop:
                    return
                if synced:
                    yield position, _unless_longer(line, before, longest)
                synced = True
                position += before + len(line) + 1
                before = 0
            if not synced:  # an earlier part has this line
                position += len(pending)
                pending = b""
            if position >= stop:
                return
            if longest is not None and before + len(pending) > longest:
                before += len(pending)
                pending = b""
            while longest is None and len(pending) > LONGEST_LINE:
                cut = _place_to_cut(pending)
                yield position, pending[:cut]
                before += cut
                pending = pending[cut:]
        if synced and before + len(pending):
            yield position, _unless_longer(pending, before, longest)


def _unless_longer(line, before, longest):
    return line if longest is None or before + len(line) <= longest else None


def _place_to_cut(line):
    space = line.rfind(b" ", 0, LONGEST_LINE)
    if space > 0:
        return space
    # Between two characters of UTF-8, whose later bytes are 10xxxxxx.
    return next(n for n in range(LONGEST_LINE, 0, -1) if line[n] & 0xC0 != 0x80)


def _decode(line, encoding, longest):
    """Returns (text, None), or None and why there is no text: what is needed, what was found."""
    if line is None:
        return None, (f"A line must have at most {counted(longest, 'byte')}; raise data.max_line "
                      "(--max_line) for longer ones", "longer")
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
    """Counts the lines before a byte: read again, since this is needed for one message only."""
    number = 1
    with _open_lines(path, encoding) as file:
        while position > 0 and (block := file.read(_BLOCK)):
            number += block[:position].count(b"\n")
            position -= len(block)
    return number


@contextlib.contextmanager
def _open_lines(path, encoding):
    """Opens a file for reading bytes in which a line ends with `\\n`: as UTF-8, if it is wide."""
    with open_bytes(path) as file:
        yield file if has_byte_lines(encoding) else _AsUTF8(file, encoding)


class _AsUTF8:
    """Reads a file of another encoding as UTF-8; what cannot be decoded becomes U+FFFD."""

    def __init__(self, file, encoding):
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def read(self, size):
        """Returns the text of about `size` bytes of the file; nothing at its end alone."""
        text = ""
        while not text and (block := self._file.read(size)):
            text = self._decoder.decode(block)
        text = text or self._decoder.decode(b"", final=True)
        # UTF-7 can hold halves of surrogate pairs, which are refused with their line.
        return text.encode("utf-8", "surrogatepass")
