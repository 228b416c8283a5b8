"""Errors that the command line prints as one line, warnings and suggestions."""

import difflib
import numbers
import re
import sys

PRECISIONS = "float32", "bfloat16"  # of models that generate text
LONGEST_MESSAGE = 1000  # characters
_warned: set[str] = set()


class UserError(ValueError):
    """Error that the user can fix: a missing file, an unknown column, a typo.

    Commands print the message without a traceback and exit with status 2. The middle of long
    messages, which quote user input, is omitted.
    """

    def __init__(self, message=""):
        super().__init__(shortened(str(message), LONGEST_MESSAGE))


class DivergedError(UserError):
    """Training error: a loss or gradient is not finite."""


def shortened(text, most):
    """Returns a text of at most `most` characters, without its middle if it is longer."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 3]} … {text[-end:]}"


def warn(line):
    """Prints a line to standard error."""
    print(line, file=sys.stderr, flush=True)


def warn_once(line, say=warn):
    """Passes a line to `say`, unless it was already passed since `forget_warnings`.

    Several readers in a command may find the same problem in a file.
    """
    if line not in _warned:
        _warned.add(line)
        say(line)


def forget_warnings():
    """Resets `warn_once`, at the beginning of a run or a command."""
    _warned.clear()


def first_line(error):
    """Returns the first line of the message of an exception, or the name of its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def reason_of(error):
    """Returns the reason of an exception: that of an OSError has neither number nor path."""
    return getattr(error, "strerror", None) or first_line(error)


def listed(names):
    """Returns up to three names of a list and the number of the others, or "none"."""
    shown = ", ".join(names[:3]) or "none"
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_counts(**counts):
    """Raises a `UserError` if an argument is not a positive integer."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
            raise UserError(f"{name} must be a positive integer. Received: {name}={count}")


def check_precision(precision):
    """Raises a `UserError` if a precision is not in `PRECISIONS`."""
    if precision not in PRECISIONS:
        raise UserError(
            f"precision must be {' or '.join(PRECISIONS)}. Received: precision={precision}"
        )


def check_choice(name, value, choices):
    """Raises a `UserError` with a suggestion if a value is not one of the choices."""
    if value not in choices:
        raise UserError(
            f"{name} must be one of {', '.join(map(str, choices))}. "
            f"Received: {name}={value}{nearest(value, choices)}"
        )


def nearest(name, names, prefix=""):
    """Returns `. Did you mean ...?` with the most similar names, or "".

    The given name may have words in another order (`macro_f1`), additional words
    (`num_train_epochs`), initials (`lr`) or typos, or be the last component of a dotted name.

    Args:
        name: The unknown name.
        names: The known names.
        prefix: Prefix of the names in the result.
    """
    name = "" if name is None else str(name).lower()[:100]
    scores = {known: _similarity(name, str(known).lower()) for known in names}
    best = max(scores.values(), default=0.0)
    found = [f"{prefix}{known}" for known, score in scores.items() if score == best]
    return f". Did you mean {' or '.join(found[:3])}?" if best >= 0.5 else ""


def _similarity(name, known):
    """Returns a similarity from 0 to 1."""
    words, leaf = _words(name), known.rpartition(".")[2]
    common = len(set(words) & set(_words(known)))
    if name in (known, leaf):
        return 1.0
    initials = "".join(word[0] for word in _words(leaf))
    if len(initials) > 1 and words[-1:] == [initials]:
        return 0.95 + 0.01 * common
    ordered = _ratio("_".join(sorted(words)), "_".join(sorted(_words(known))))
    has_all = len(words) > 1 and set(_words(leaf)) <= set(words)
    return max(
        _ratio(name, known), _ratio(name, leaf), 0.99 * ordered, has_all * (0.6 + 0.05 * common)
    )


def _words(name):
    return re.findall(r"[^\W_]+", name)


def _ratio(first, second):
    return difflib.SequenceMatcher(None, first, second).ratio()
