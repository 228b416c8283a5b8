"""Tagging schemes of entities: detection, validation and conversion to IOB2.

A tag is `O`, or a prefix and a type, such as `B-PER`. In IOB2 every entity begins with `B`; in IOB1
only an entity that directly follows another one of its type does; IOBES also marks the last word of
an entity (`E`) and entities of one word (`S`).
"""

import re
from collections.abc import Iterable, Sequence

IOB1, IOB2, IOBES, RAW = "iob1", "iob2", "iobes", "raw"
SCHEMES = (IOB1, IOB2, IOBES, RAW)
OUTSIDE = "O"
UNTYPED = "entity"  # type of the tags B and I
_ENTITY = re.compile(r"[BIESLUM](-.+)?", re.DOTALL)
# Names of the same prefixes in BILOU and BMES.
_ALIASES = {"L": "E", "U": "S", "M": "I"}


def split_tag(tag: str) -> tuple[str, str | None]:
    """Returns the prefix and the type of a tag of an entity; ("O", None) for other tags."""
    if not _ENTITY.fullmatch(tag):
        return OUTSIDE, None
    return _ALIASES.get(tag[0], tag[0]), tag[2:] or UNTYPED


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Returns the tagging scheme of sentences; `RAW` if their tags are not those of entities."""
    starts = {"B": 0, "I": 0}  # entities after a word outside of entities, by prefix
    found = ended = False
    for tags in sentences:
        previous = None
        for tag in tags:
            if tag == OUTSIDE:
                previous = None
                continue
            if not _ENTITY.fullmatch(tag):
                return RAW
            found = True
            prefix, kind = split_tag(tag)
            ended = ended or prefix in "ES"
            if prefix in starts and kind != previous:
                starts[prefix] += 1
            previous = kind
    if not found:
        return RAW
    if ended:
        return IOBES
    return IOB1 if starts["I"] > starts["B"] else IOB2


def to_iob2(tags: Sequence[str], scheme: str) -> tuple[list[str], int | None]:
    """Converts the tags of a sentence to IOB2.

    Args:
        tags: The tags.
        scheme: One of `SCHEMES`; `RAW` tags are returned unchanged.

    Returns:
        The tags, and the index of the first tag that is invalid in the scheme, or None; the number
        of tags if an entity is not finished at the end.
    """
    if scheme == RAW:
        return list(tags), None
    converted, before, inside = [], None, None  # type of the previous word, and of an open entity
    for number, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if tag == OUTSIDE:
            if scheme == IOBES and inside:
                return converted, number
            converted.append(OUTSIDE)
            before = inside = None
            continue
        if not _ENTITY.fullmatch(tag) or not _is_valid(prefix, kind, before, inside, scheme):
            return converted, number
        begins = prefix in "BS" or scheme == IOB1 and kind != before
        converted.append(f"{'B' if begins else 'I'}-{kind}")
        before, inside = kind, kind if prefix in "BI" else None
    if scheme == IOBES and inside:
        return converted, len(tags)
    return converted, None


def _is_valid(prefix, kind, before, inside, scheme):
    """Whether a tag may follow a word of the type `before`, and an unfinished entity `inside`."""
    if scheme == IOB1:
        return prefix == "I" or prefix == "B" and kind == before
    if scheme == IOB2:
        return prefix == "B" or prefix == "I" and kind == before
    return inside == (kind if prefix in "IE" else None)


def allowed_transitions(names: Sequence[str]) -> list[list[bool]]:
    """Returns which tag may follow which in IOB2: `I-X` only follows `B-X` and `I-X`.

    Args:
        names: Names of the tags.

    Returns:
        Nested lists `[first][second]`.
    """
    pairs = [split_tag(name) for name in names]
    return [[second != "I" or kind == before for second, kind in pairs] for _, before in pairs]


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns the entities of tags: type, first word, and end (exclusive).

    An `I` or `E` without a beginning, as models predict them, begins an entity.
    """
    found: list[tuple[str, int, int]] = []
    for number, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if kind is None:
            continue
        if prefix in "IE" and found and (found[-1][0], found[-1][2]) == (kind, number):
            found[-1] = (kind, found[-1][1], number + 1)
        else:
            found.append((kind, number, number + 1))
    return found


def valid_iob2(tags: Sequence[str]) -> list[str]:
    """Returns the `entities` of predicted tags in IOB2, which may be those of another scheme, or
    have an `I` without a beginning."""
    found = [OUTSIDE] * len(tags)
    for kind, first, last in entities(tags):
        found[first:last] = [f"B-{kind}", *[f"I-{kind}"] * (last - first - 1)]
    return found
