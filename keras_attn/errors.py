"""The error that the command line prints as one line."""

import difflib
import numbers
import re
import sys

PRECISIONS = "float32", "bfloat16"  # of models that make text
LONGEST_MESSAGE = 1000  # characters
_warned: set[str] = set()


class UserError(ValueError):
    """Something that the user can mend: a missing file, a wrong column, a typo.

    The message says what is needed and what was received. Entry points print
    it without a traceback and exit with status 2. The middle of a long one, which repeats a
    text of the user's, is left out.
    """

    def __init__(self, message=""):
        super().__init__(shortened(str(message), LONGEST_MESSAGE))


class DivergedError(UserError):
    """A loss or gradient that is not finite."""


def shortened(text, most):
    """Returns a text of at most so many characters: its beginning and its end."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 3]} … {text[-end:]}"


def warn(line):
    """Says a line where no results are written."""
    print(line, file=sys.stderr, flush=True)


def warn_once(line, say=warn):
    """Passes a line to `say`, unless it was said since `forget_warnings`.

    Several readers in a command may find the same fault of a file.
    """
    if line not in _warned:
        _warned.add(line)
        say(line)


def forget_warnings():
    """Lets `warn_once` say every line again; for the beginning of a run or a command."""
    _warned.clear()


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
        raise UserError(
            f"precision must be {' or '.join(PRECISIONS)}. Received: precision={precision}"
        )


def check_choice(name, value, choices):
    """Raises a `UserError` that names the nearest choice for a value that is none of them."""
    if value not in choices:
        raise UserError(
            f"{name} must be one of {', '.join(choices)}. "
            f"Received: {name}={value}{nearest(value, choices)}"
        )


def nearest(name, names, prefix=""):
    """Returns `. Did you mean ...?` for the name that was probably meant, or nothing.

    Words may be in another order (`macro_f1`), more than needed (`num_train_epochs`), initials
    (`lr`) or misspelt. Of dotted names the last part alone may be given.

    Args:
        name: What was given.
        names: What there is.
        prefix: Stands before the name in the answer.
    """
    name = "" if name is None else str(name).lower()[:100]
    scores = {known: _similarity(name, str(known).lower()) for known in names}
    best = max(scores.values(), default=0.0)
    found = [f"{prefix}{known}" for known, score in scores.items() if score == best]
    return f". Did you mean {' or '.join(found[:3])}?" if best >= 0.5 else ""


def _similarity(name, known):
    """A number from 0 to 1."""
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
