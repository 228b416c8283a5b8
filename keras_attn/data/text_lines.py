"""Lines of text files of any size, from any filesystem: gzipped, with any encoding."""

import codecs
import contextlib
import gzip
import zlib

import tensorflow as tf

from keras_attn.errors import UserError

_BLOCK = 1 << 22
# A longer line is cut, so that a file without line ends does not have to fit in memory.
LONGEST_LINE = 1 << 22


def is_gzip(path):
    """Returns whether the name says that the file is gzipped."""
    return path.lower().endswith(".gz")


def has_byte_lines(encoding):
    """Returns whether a line ends with the byte `\\n`, so that a file can be cut anywhere.

    Raises:
        UserError: If Python knows no such encoding of text.
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(encoding)
    except (LookupError, TypeError) as error:
        raise UserError(
            f"encoding must be one that Python knows, such as utf-8. Received: {encoding}"
        ) from error
    return not name.startswith(("utf-16", "utf-32", "utf-7"))


def read_lines(path, start=0, encoding="utf-8", on_bad_text="error", counts=None):
    """Yields the lines of a file from a position on.

    A byte-order mark and line ends (LF, CRLF, CR) are dropped.

    Args:
        path: The file; gzipped if its name ends with `.gz`.
        start: A byte of the file, not of a gzipped one. The first line is the first one that
            starts there or later.
        encoding: Of the text.
        on_bad_text: For a line that is not in this encoding, "error" or "skip".
        counts: A Counter; `lines_skipped` counts in it.

    Returns:
        Iterator of (position, str): the byte where the line starts, unzipped, and the text. A line
        of more than 4 MB comes in several pieces, all with its position.

    Raises:
        UserError: If the file is missing or damaged, or for a line in another encoding.
    """
    if not has_byte_lines(encoding):
        yield from _wide_lines(path, encoding, on_bad_text, counts)
        return
    for position, line in _byte_lines(path, start):
        if position == 0:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            if on_bad_text == "error":
                number = _line_number(path, position)
                raise _wrong_encoding(path, number, encoding, error.reason) from error
            counts["lines_skipped"] += 1
            continue
        text = text.rstrip("\r")
        if "\r" in text:
            for part in text.split("\r"):
                yield position, part
        else:
            yield position, text


def line_error(path, position, needed):
    """Returns a UserError that names the file and the line that starts at a byte."""
    return UserError(f"{needed}. Received: {path}, line {_line_number(path, position)}")


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
        raise UserError(f"The text must be in an existing file. Received: {path}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(
            f"A .gz file must be a whole gzip file. Received: {path} ({error})"
        ) from error
    except (tf.errors.PermissionDeniedError, tf.errors.FailedPreconditionError) as error:
        raise UserError(
            f"The text must be in a readable file. Received: {path} ({error.message})"
        ) from error


def _byte_lines(path, start):
    """Yields (position, bytes without the LF) of each line that starts at `start` or later."""
    with open_bytes(path) as file:
        position = max(0, start - 1)
        if position:
            file.seek(position)
        pending = b""
        before = 0  # bytes of a long line that were yielded already
        synced = start == 0
        while block := file.read(_BLOCK):
            lines = (pending + block).split(b"\n")
            pending = lines.pop()
            for line in lines:
                if synced:
                    yield position, line
                synced = True
                position += before + len(line) + 1
                before = 0
            while len(pending) > LONGEST_LINE:
                cut = _place_to_cut(pending)
                if synced:
                    yield position, pending[:cut]
                before += cut
                pending = pending[cut:]
        if pending and synced:
            yield position, pending


def _place_to_cut(line):
    space = line.rfind(b" ", 0, LONGEST_LINE)
    if space > 0:
        return space
    # Between two characters of UTF-8, whose later bytes are 10xxxxxx.
    return next(n for n in range(LONGEST_LINE, 0, -1) if line[n] & 0xC0 != 0x80)


def _wide_lines(path, encoding, on_bad_text, counts):
    """Yields lines of an encoding whose line ends are no single byte, such as UTF-16."""
    with open_bytes(path) as file:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        pending = ""
        number = 0
        while block := file.read(_BLOCK):
            lines = (pending + decoder.decode(block)).split("\n")
            pending = lines.pop()
            for line in lines:
                number += 1
                yield from _checked_line(path, number, line, encoding, on_bad_text, counts)
        pending += decoder.decode(b"", final=True)
        if pending:
            yield from _checked_line(path, number + 1, pending, encoding, on_bad_text, counts)


def _checked_line(path, number, line, encoding, on_bad_text, counts):
    if "\ufffd" not in line:
        yield number - 1, line.removeprefix("\ufeff").rstrip("\r").replace("\r", " ")
    elif on_bad_text == "error":
        raise _wrong_encoding(path, number, encoding, "a character that cannot be decoded")
    else:
        counts["lines_skipped"] += 1


def _wrong_encoding(path, number, encoding, reason):
    return UserError(
        f"The text must be {encoding}; give another encoding or on_bad_text=skip. "
        f"Received: {path}, line {number} ({reason})"
    )


def _line_number(path, position):
    """Counts the lines before a byte: read again, since this is needed for one message only."""
    number = 1
    with open_bytes(path) as file:
        while position > 0 and (block := file.read(min(_BLOCK, position))):
            number += block.count(b"\n")
            position -= len(block)
    return number
