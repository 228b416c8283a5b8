"""Standard streams of a command: open, and able to print any text."""

import codecs
import os
import sys

# What stands for signs of our messages where the terminal's encoding lacks them.
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
        _PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in text
    ), error.end


codecs.register_error("keras_attn.plain", _plain)


def prepare_streams():
    """Opens standard streams that are closed, and lets messages be printed in any encoding.

    A closed stream would make the next file that is opened take its place: what a library prints
    would end up in it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end of the process
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="keras_attn.plain")


def flush_streams():
    """Writes what was printed, so that an error in doing so is not met at the very end."""
    sys.stdout.flush()
    sys.stderr.flush()


def discard_streams():
    """Sends what is left to print nowhere: its reader is gone or its disk is full."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)


def standard_output():
    """Standard output for results, which are UTF-8 as in files; None where it is closed."""
    if sys.stdout is None or getattr(sys.stdout, "name", None) == os.devnull:
        return None
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")
    return sys.stdout
