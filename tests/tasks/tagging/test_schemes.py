"""Tagging schemes: random entities are written in every scheme, and read back."""

import numpy as np
import pytest

from keras_attn.tasks.tagging.schemes import (
    allowed_transitions,
    detect_scheme,
    entities,
    to_iob2,
    valid_iob2,
)


def random_entities(random, length, kinds=("PER", "LOC")):
    """Disjoint spans: type, first word, and end."""
    found, start = [], 0
    while start < length:
        start += int(random.integers(0, 3))
        end = start + int(random.integers(1, 4))
        if end <= length:
            found.append((kinds[int(random.integers(len(kinds)))], start, end))
        start = end
    return found


def written(spans, length, scheme):
    """The tags of entities, as the scheme is defined."""
    tags = ["O"] * length
    for kind, start, end in spans:
        for word in range(start, end):
            tags[word] = f"I-{kind}"
        follows = any(other == kind and last == start for other, _, last in spans)
        if scheme != "iob1" or follows:
            tags[start] = f"B-{kind}"
        if scheme == "iobes":
            tags[end - 1] = f"{'S' if end == start + 1 else 'E'}-{kind}"
    return tags


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "iobes"])
def test_entities_are_the_same_in_every_scheme(scheme):
    random = np.random.default_rng(0)
    spans = [random_entities(random, 12) for _ in range(50)]
    sentences = [written(own, 12, scheme) for own in spans]
    assert detect_scheme(sentences) == scheme
    for own, tags in zip(spans, sentences, strict=True):
        converted, wrong = to_iob2(tags, scheme)
        assert wrong is None and converted == written(own, 12, "iob2")
        assert entities(converted) == entities(tags) == own
        assert valid_iob2(tags) == converted


def test_entities_of_iob2_are_those_of_seqeval():
    from seqeval.metrics.sequence_labeling import get_entities

    random = np.random.default_rng(1)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    for _ in range(200):  # also sequences that are invalid, as models predict them
        tags = [names[number] for number in random.integers(0, 5, 8)]
        assert entities(tags) == [
            (kind, first, last + 1) for kind, first, last in get_entities(tags)
        ]


@pytest.mark.parametrize(
    "scheme, tags, wrong",
    [
        ("iob2", ["I-PER"], 0),
        ("iob2", ["B-PER", "I-LOC"], 1),
        ("iob2", ["B-PER", "O", "I-PER"], 2),
        ("iob2", ["B-PER", "S-PER"], 1),
        ("iob2", ["B-"], 0),
        ("iob2", ["NOUN"], 0),
        ("iob1", ["O", "B-PER"], 1),
        ("iob1", ["I-LOC", "B-PER"], 1),
        ("iobes", ["B-PER", "O"], 1),
        ("iobes", ["B-PER"], 1),
        ("iobes", ["B-PER", "E-LOC"], 1),
        ("iobes", ["B-PER", "I-PER", "S-PER"], 2),
        ("iobes", ["I-PER", "E-PER"], 0),
        ("iobes", ["E-PER"], 0),
    ],
)
def test_the_first_invalid_tag_is_found(scheme, tags, wrong):
    assert to_iob2(tags, scheme)[1] == wrong


def test_other_tags_are_raw_and_bilou_is_iobes():
    assert detect_scheme([["NOUN", "X", "O"]]) == "raw"
    assert detect_scheme([["O", "O"]]) == "raw"
    assert detect_scheme([["B-PER", "NOUN"]]) == "raw"
    assert detect_scheme([["U-PER", "O", "B-LOC", "L-LOC"]]) == "iobes"
    assert to_iob2(["U-PER", "B-A-B", "M-A-B", "L-A-B"], "iobes") == (
        ["B-PER", "B-A-B", "I-A-B", "I-A-B"],
        None,
    )
    assert to_iob2(["I-", "x"], "raw") == (["I-", "x"], None)


def test_untyped_tags_have_one_type():
    assert detect_scheme([["O", "B", "I"], ["B"]]) == "iob2"
    assert to_iob2(["B", "I", "O"], "iob2") == (["B-entity", "I-entity", "O"], None)


def test_predicted_tags_become_valid():
    assert valid_iob2(["I-X", "I-X", "O", "B-Y", "I-X"]) == ["B-X", "I-X", "O", "B-Y", "B-X"]
    assert valid_iob2(["S-X", "B-X", "E-X", "U-Y"]) == ["B-X", "B-X", "I-X", "B-Y"]


def test_an_inside_tag_only_follows_its_own_type():
    names = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    allowed = allowed_transitions(names)
    for first, row in zip(names, allowed, strict=True):
        for second, own in zip(names, row, strict=True):
            assert own == (
                to_iob2(["B" + first[1:], first, second][first == "O" :], "iob2")[1] is None
            )
