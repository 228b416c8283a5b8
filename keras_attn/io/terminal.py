"""Standard streams of a command, made open and able to print any text."""

import codecs
import os
import sys

# Replacements of characters in messages that the encoding of the terminal lacks.
_PLAIN = {
    "·": "-",
    "…": "...",
    "–": "-",
    "—": "-",
    "±": "+/-",
    "“": '"',
    "”": '"',
    "’": "'",
    "‘": "'",
}


def _plain(error):
    text = error.object[error.start : error.end]
    return "".join(
        _PLAIN.get(char) or char.encode("ascii", "backslashreplace").decode() for char in text
    ), error.end


codecs.register_error("keras_attn.plain", _plain)


def prepare_streams():
    """Opens closed standard streams, and makes messages printable in any encoding.

    The next file that is opened would otherwise replace a closed stream, and receive the output of
    libraries.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free descriptor: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="keras_attn.plain")


def flush_streams():
    """Flushes standard streams, so that an error occurs here and not at the exit."""
    sys.stdout.flush()
    sys.stderr.flush()


def discard_streams():
    """Discards unwritten output, after its reader has exited or its disk is full."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)


def standard_output():
    """Returns standard output for results, which are UTF-8 as in files; None if it is closed."""
    if sys.stdout is None or getattr(sys.stdout, "name", None) == os.devnull:
        return None
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")
    return sys.stdout
