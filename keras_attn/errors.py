"""The error that the command line prints as one line."""

import difflib
import numbers
import sys

PRECISIONS = "float32", "bfloat16"  # of models that make text


class UserError(ValueError):
    """Something that the user can mend: a missing file, a wrong column, a typo.

    The message says what is needed and what was received. Entry points print
    it without a traceback and exit with status 2.
    """


class DivergedError(UserError):
    """A loss or gradient that is not finite."""


def warn(line):
    """Says a line where no results are written."""
    print(line, file=sys.stderr, flush=True)


def first_line(error):
    """First line of what an exception says, or its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def check_counts(**counts):
    """Raises a `UserError` for what is no whole number of at least 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
            raise UserError(f"{name} must be 1, 2, …. Received: {name}={count}")


def check_precision(precision):
    """Raises a `UserError` for what is not in `PRECISIONS`."""
    if precision not in PRECISIONS:
        raise UserError(f"precision must be {' or '.join(PRECISIONS)}. "
                        f"Received: precision={precision}")


def nearest(name, names, prefix=""):
    """Returns `; did you mean ...?` for the name that was probably meant, or nothing.

    Args:
        name: What was given.
        names: What there is.
        prefix: Stands before the name in the answer.
    """
    by_folded = {str(known).lower(): known for known in names}
    found = difflib.get_close_matches(str(name).lower(), by_folded, 1, cutoff=0.5)
    return f"; did you mean {prefix}{by_folded[found[0]]}?" if found else ""
