"""Encoding of labels as class indices, numbers, or 0 and 1 for each class."""

import json
import math
import re
import unicodedata
from reprlib import repr as shorten

import numpy as np

from keras_attn.data.sources.record_formats import as_label
from keras_attn.errors import UserError, nearest
from keras_attn.tasks.finetuning.correlations import MAX_SCORE
from keras_attn.tasks.labels import read_labels

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
# How tools write missing values, in lower case.
MISSING = ("nan", "na", "n/a", "<na>", "none", "null", "inf", "-inf")


class LabelSet:
    """Names of the classes, in the order of their indices.

    Args:
        names: Strings.
        aliases: Dict from other spellings in the data to names.

    Raises:
        UserError: If a name is empty or duplicate, or there are fewer than two.
    """

    def __init__(self, names, aliases=None):
        self.names = tuple(str(name) for name in names)
        self.aliases = dict(aliases or {})
        if len(self.names) < 2:
            raise UserError(f"There must be at least two classes. Received: labels={self.names}")
        if len(set(self.names)) < len(self.names) or "" in self.names:
            raise UserError(f"Labels must be distinct and not empty. Received: {self.names}")
        self._indices = {name: index for index, name in enumerate(self.names)}
        for alias, name in self.aliases.items():
            self._indices.setdefault(alias, self._indices[name])

    @classmethod
    def from_labels(cls, labels, positive=None):
        """Returns the set of the labels that occur, sorted (integers by value).

        Args:
            labels: Strings.
            positive: Of two classes, the positive class of F1, which comes last; None: the order
                is sorted.

        Raises:
            UserError: If only one class occurs, two labels differ only in case, white space,
                Unicode normalization or number format, a label is NaN among numbers, or `positive`
                is not one of two classes.
        """
        names = set(labels)
        folded = {}
        for name in sorted(names):
            other = folded.setdefault(_folded(name), name)
            if other != name:
                raise UserError(
                    "Labels must differ in more than case, white space and number format. Unify "
                    f"them. Received: {other!r} and {name!r}"
                )
        missing = {name for name in names if name.strip().lower() in MISSING}
        if missing and all(_NUMBER.fullmatch(name.strip()) for name in names - missing):
            raise UserError(
                "Labels must not be missing. Remove the rows without a label. "
                f"Received: {min(missing)!r} among {_shortened(sorted(names))}"
            )
        names = sorted(names)
        if all(name.removeprefix("-").isdecimal() for name in names):
            names.sort(key=int)
        if positive is not None:
            if len(names) != 2:
                raise UserError(
                    "data.positive requires two classes. Leave it unset. Received: data.positive="
                    f"{positive}, classes={_shortened(names)}"
                )
            if positive not in names:
                raise UserError(
                    "data.positive must be one of the classes. Received: data.positive="
                    f"{positive}, classes={_shortened(names)}{nearest(positive, names)}"
                )
            names.sort(key=lambda name: name == positive)
        return cls(names)

    @classmethod
    def from_lists(cls, labels, separator, where=None):
        """Returns the set of the labels that occur in multilabel rows.

        Args:
            labels: Label lists as strings; see `split_labels`.
            separator: Separator of the labels.
            where: See `encode`.

        Raises:
            UserError: See `from_labels` and `split_labels`; also if a label contains the
                separator, because a table could not distinguish it from two labels.
        """
        found = {
            label
            for row, text in enumerate(labels)
            for label in split_labels(text, separator, row, where)
        }
        if len(found) < 2:
            raise UserError(
                "data.task=multilabel requires at least two labels. Use data.task=single_label "
                "with two classes if a single label is present or absent. "
                f"Received: {f'only {min(found)!r}' if found else 'no labels'}"
            )
        double = sorted(label for label in found if separator in label)
        if double:
            raise UserError(
                "Labels must not contain data.label_separator. Choose another separator. "
                f"Received: {double[0]!r}, data.label_separator={separator!r}"
            )
        return cls.from_labels(found)

    def __len__(self):
        return len(self.names)

    def encode(self, labels, where=None):
        """Encodes labels as class indices.

        Args:
            labels: Strings.
            where: Function from the number of a row to its location for messages, such as
                `Table.where`.

        Returns:
            int32 `(N,)`.

        Raises:
            UserError: If a label is unknown.
        """
        known = self._indices
        indices = np.array([known.get(label, -1) for label in labels], np.int32)
        if indices.size and indices.min() < 0:
            row = int(np.argmin(indices >= 0))
            raise self._unknown(labels[row], row, where)
        return indices

    def encode_lists(self, labels, separator, where=None):
        """Encodes multilabel rows as 0 and 1, float32 `(N, C)`.

        Args:
            labels: Label lists as strings; see `split_labels`.
            separator: Separator of the labels.
            where: See `encode`.
        """
        table = np.zeros((len(labels), len(self)), np.float32)
        for row, text in enumerate(labels):
            for label in split_labels(text, separator, row, where):
                if label not in self._indices:
                    raise self._unknown(label, row, where)
                table[row, self._indices[label]] = 1.0
        return table

    def _unknown(self, label, row, where):
        return UserError(
            f"Labels must be among those of the training data: {_shortened(self.names)}. "
            f"Received: {label!r} at {_location(row, where)}" + nearest(label, self.names)
        )


def split_labels(text, separator, row, where=None):
    """Returns the labels of a multilabel row, separated or in a JSON list.

    Args:
        text: String.
        separator: Separator of the labels.
        row: Number of the row.
        where: See `LabelSet.encode`.

    Raises:
        UserError: If the text begins like a JSON list but is not one of strings and numbers.
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
                "Multilabel rows must have labels separated by data.label_separator, or a JSON "
                f'list such as ["red", "blue"]. Received: {text[:80]!r} at {_location(row, where)}'
            )
        parts = map(as_label, parts)
    return [part.strip() for part in parts if part.strip()]


def _folded(name):
    """Maps labels that look alike to one string, such as 1 and 1.0, or Unicode forms of é."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if not _NUMBER.fullmatch(text):
        return text
    text = text.removeprefix("+")
    return str(float(text)).removesuffix(".0") if "." in text else text


def read_label_file(workdir, num_classes=None):
    """Reads labels.json of a classifier: `names`, and `pairs`, whether it takes text pairs.

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
    """Encodes the labels of a regression as float32 `(N,)`.

    Raises:
        UserError: If a label is not a finite number, or its square is not one in float32.
    """
    scores = np.full(len(labels), np.nan)
    for row, label in enumerate(labels):
        try:
            scores[row] = float(label)
        except ValueError:
            break
    bad = np.flatnonzero(~(np.abs(scores) <= MAX_SCORE))
    if bad.size:
        row = int(bad[0])
        raise UserError(
            "Labels of a regression must be finite numbers, at most 1e15 in absolute value. "
            f"Received: {labels[row]!r} at {_location(row, where)}"
        )
    return scores.astype(np.float32)


def encode_labels(labels, known, kind, separator, where):
    """Encodes labels.

    Args:
        labels: Strings.
        known: `LabelSet`, or None for regression.
        kind: See `probabilities`.
        separator: Separator of the labels of a multilabel row.
        where: See `LabelSet.encode`.

    Returns:
        Class indices, int32 `(N,)`; for multilabel 0 and 1, float32 `(N, C)`; for regression
        numbers, float32 `(N,)`.
    """
    if kind == "multilabel":
        return known.encode_lists(labels, separator, where)
    return known.encode(labels, where) if known else encode_scores(labels, where)


def balanced_weights(labels):
    """Returns weights of examples with mean 1 and the same sum for each class: float32 `(N,)`."""
    counts = np.bincount(labels)
    return (len(labels) / (np.count_nonzero(counts) * counts[labels])).astype(np.float32)


def _shortened(names, most=20):
    # Quotes make white space visible.
    shown = [name if name == " ".join(name.split()) else repr(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def _location(row, where):
    return where(row) if where is not None else f"row {row}"
