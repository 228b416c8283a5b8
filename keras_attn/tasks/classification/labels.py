"""Labels of texts -> class indices, numbers, or 0 and 1 for each class."""

import json
import math
import re
import unicodedata
from reprlib import repr as shorten

import numpy as np

from keras_attn.data.sources.record_formats import as_label
from keras_attn.errors import UserError, nearest
from keras_attn.tasks.labels import read_labels

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
# As tools write a missing label, in lower case.
MISSING = ("nan", "na", "n/a", "<na>", "none", "null", "inf", "-inf")


class LabelSet:
    """Names of the classes, in the order of their index.

    Args:
        names: Strings.
        aliases: Dictionary from other spellings in the data to names.

    Raises:
        UserError: If a name is empty or there twice, or there are fewer than two.
    """

    def __init__(self, names, aliases=None):
        self.names = tuple(str(name) for name in names)
        self.aliases = dict(aliases or {})
        if len(self.names) < 2:
            raise UserError(f"At least two classes are needed. Received: labels={self.names}")
        if len(set(self.names)) < len(self.names) or "" in self.names:
            raise UserError(f"Labels must differ and not be empty. Received: {self.names}")
        self._indices = {name: index for index, name in enumerate(self.names)}
        for alias, name in self.aliases.items():
            self._indices.setdefault(alias, self._indices[name])

    @classmethod
    def from_labels(cls, labels, positive=None):
        """Makes the set of the labels that occur, sorted (whole numbers by value).

        Args:
            labels: Strings.
            positive: Of two, the one that comes last, which F1 is of; None: as sorted.

        Raises:
            UserError: If only one class occurs, two differ only in case, blanks, form of Unicode or
                notation of a number, one is NaN or the like where the others are numbers, or
                `positive` is none of two.
        """
        names = set(labels)
        folded = {}
        for name in sorted(names):
            other = folded.setdefault(_folded(name), name)
            if other != name:
                raise UserError(
                    "Labels must differ in more than case, blanks and the notation of a number; "
                    f"make them one. Received: {other!r} and {name!r}"
                )
        missing = {name for name in names if name.strip().lower() in MISSING}
        if missing and all(_NUMBER.fullmatch(name.strip()) for name in names - missing):
            raise UserError(
                "Labels must all be numbers where most are; remove the rows without a "
                f"label. Received: {min(missing)!r} among {_some(sorted(names))}"
            )
        names = sorted(names)
        if all(name.removeprefix("-").isdecimal() for name in names):
            names.sort(key=int)
        if positive is not None:
            if positive not in names or len(names) != 2:
                raise UserError(
                    "data.positive must be one of two classes. Received: data.positive="
                    f"{positive}, classes={_some(names)}{nearest(positive, names)}"
                )
            names.sort(key=lambda name: name == positive)
        return cls(names)

    @classmethod
    def from_lists(cls, labels, separator, where=None):
        """Makes the set of the labels that occur in rows of any number of them.

        Args:
            labels: Strings, as `split_labels` takes them.
            separator: Of the labels.
            where: As in `encode`.

        Raises:
            UserError: As `from_labels` and `split_labels`, and for a label with the separator
                in it, which no table could tell from two.
        """
        found = {
            label
            for row, text in enumerate(labels)
            for label in split_labels(text, separator, row, where)
        }
        if len(found) < 2:
            raise UserError(
                "Two labels at least are needed for data.task=multilabel; one that is "
                "there or not is single_label, with a name for each. "
                f"Received: {f'only {min(found)!r}' if found else 'rows without any'}"
            )
        double = sorted(label for label in found if separator in label)
        if double:
            raise UserError(
                "Labels must not hold data.label_separator; choose another. Received: "
                f"{double[0]!r}, data.label_separator={separator!r}"
            )
        return cls.from_labels(found)

    def __len__(self):
        return len(self.names)

    def encode(self, labels, where=None):
        """Turns labels into class indices.

        Args:
            labels: Strings.
            where: Function from a row's number to its place, for the error; `Table.where`.

        Returns:
            int32 `(N,)`.

        Raises:
            UserError: For an unknown label, with its row and the known ones.
        """
        known = self._indices
        indices = np.array([known.get(label, -1) for label in labels], np.int32)
        if indices.size and indices.min() < 0:
            row = int(np.argmin(indices >= 0))
            self._refuse(labels[row], row, where)
        return indices

    def encode_lists(self, labels, separator, where=None):
        """Turns rows of any number of labels into float32 `(N, C)`, 1 for each that is there.

        Args:
            labels: Strings, as `split_labels` takes them.
            separator: Of the labels.
            where: As in `encode`.
        """
        table = np.zeros((len(labels), len(self)), np.float32)
        for row, text in enumerate(labels):
            for label in split_labels(text, separator, row, where):
                if label not in self._indices:
                    self._refuse(label, row, where)
                table[row, self._indices[label]] = 1.0
        return table

    def _refuse(self, label, row, where):
        raise UserError(
            f"A label known from training is needed: {_some(self.names)}. "
            f"Received: {label!r} at {_place(row, where)}" + nearest(label, self.names)
        )


def split_labels(text, separator, row, where=None):
    """The labels of a row: those between separators, or of a JSON list.

    Args:
        text: String.
        separator: Of the labels.
        row: Its number.
        where: As in `LabelSet.encode`.

    Raises:
        UserError: For what begins like a list and is none of strings and numbers.
    """
    parts = text.split(separator)
    if text.lstrip().startswith("["):
        try:
            parts = json.loads(text)
        except (ValueError, RecursionError):  # nested too deeply
            parts = None
        if not isinstance(parts, list) or any(
            isinstance(part, (list, dict))
            or part is None
            or isinstance(part, float)
            and not math.isfinite(part)
            for part in parts
        ):
            raise UserError(
                "Labels with data.label_separator between them, or a JSON list such as "
                f'["red", "blue"], are needed. Received: {text[:80]!r} at '
                f"{_place(row, where)}"
            )
        parts = map(as_label, parts)
    return [part.strip() for part in parts if part.strip()]


def _folded(name):
    """The same for labels that look alike, such as 1 and 1.0, or é of one and of two signs."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if not _NUMBER.fullmatch(text):
        return text
    text = text.removeprefix("+")
    return str(float(text)).removesuffix(".0") if "." in text else text


def read_label_file(workdir, num_classes=None):
    """Reads labels.json of a classifier: `names` of the classes, `pairs` of texts or not.

    Args:
        workdir, num_classes: See `read_labels`.
    """
    found = read_labels(workdir, num_classes, ("pairs",))
    if not (found["pairs"] is None or isinstance(found["pairs"], bool)):
        raise UserError(
            "pairs must be true, false or null. Received: "
            f"{shorten(found['pairs'])} in {workdir / 'labels.json'}"
        )
    return found


def encode_scores(labels, where=None):
    """Turns labels of a regression into float32 `(N,)`.

    Raises:
        UserError: For a label that is not a finite number, with its row.
    """
    scores = np.full(len(labels), np.nan)
    for row, label in enumerate(labels):
        try:
            scores[row] = float(label)
        except ValueError:
            break
    bad = np.flatnonzero(~(np.abs(scores) <= np.finfo(np.float32).max))
    if bad.size:
        row = int(bad[0])
        raise UserError(
            "A number as label is needed for regression. "
            f"Received: {labels[row]!r} at {_place(row, where)}"
        )
    return scores.astype(np.float32)


def encode_labels(labels, known, kind, separator, where):
    """Labels of a file as class indices, numbers, or 0 and 1 for each class.

    Args:
        labels: Strings.
        known: `LabelSet`, or None for regression.
        kind: As `probabilities` takes it.
        separator: Of several labels.
        where: As in `LabelSet.encode`.
    """
    if kind == "multilabel":
        return known.encode_lists(labels, separator, where)
    return known.encode(labels, where) if known else encode_scores(labels, where)


def balanced_weights(labels):
    """What each example counts so that all classes that occur weigh the same: float32 `(N,)`.

    Their mean is 1.
    """
    counts = np.bincount(labels)
    return (len(labels) / (np.count_nonzero(counts) * counts[labels])).astype(np.float32)


def _some(names, most=20):
    # With quotes where a blank would not be seen.
    told = [name if name == " ".join(name.split()) else repr(name) for name in names[:most]]
    return ", ".join(told) + (f" and {len(names) - most} more" if len(names) > most else "")


def _place(row, where):
    return where(row) if where is not None else f"row {row}"
