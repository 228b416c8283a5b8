"""Held-out rows: shares by class, equal texts on one side, the same rows for a seed."""

import collections

import numpy as np
import pytest

from keras_attn.data.sources.tables import Table
from keras_attn.data.splits import count_shared_rows, hold_out
from keras_attn.errors import UserError


def _table(texts, labels, pairs=None):
    return Table(list(texts), pairs, list(labels), {}, np.arange(len(texts)), [(0, "rows.tsv")])


def _held(table, share, seed):
    """Held out by the labels of the table."""
    return hold_out(table, share, seed, np.array(table.labels))


def _numbered(counts):
    labels = [label for label, count in counts.items() for _ in range(count)]
    return _table([f"text {i}" for i in range(len(labels))], labels)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_each_class_has_its_share(share):
    counts = {"a": 400, "b": 40, "c": 100}
    train, held = _held(_numbered(counts), share, 3)
    found = collections.Counter(held.labels)
    assert all(abs(found[name] - share * count) < 1 for name, count in counts.items())
    assert len(held) == round(share * 540)
    assert sorted([*train.texts, *held.texts]) == sorted(_numbered(counts).texts)


def test_rows_keep_their_order_and_their_place():
    table = _numbered({"a": 30, "b": 30})
    for part in _held(table, 0.3, 0):
        numbers = [int(text.split()[1]) for text in part.texts]
        assert numbers == sorted(numbers) == part.lines.tolist()
        assert part.where(0) == f"rows.tsv, line {numbers[0]}"


def test_equal_texts_stay_on_one_side():
    table = _table(["same", "other", "same", "more", "same", "last"] * 5, "aababb" * 5)
    for seed in range(20):
        assert count_shared_rows(*_held(table, 0.4, seed)) == 0


def test_a_pair_is_equal_only_if_both_texts_are():
    first = _table(["x", "x"], "ab", ["1", "2"])
    assert count_shared_rows(first, _table(["x", "y"], "ab", ["2", "1"])) == 1
    assert count_shared_rows(first, _table(["x", "x"], "ab", ["3", "4"])) == 0


def test_a_rare_class_is_left_to_train_on():
    for seed in range(20):
        train, held = _held(_numbered({"a": 50, "rare": 1, "two": 2}), 0.5, seed)
        assert {"a", "rare", "two"} == set(train.labels)
        assert len(held) == round(0.5 * 53)


def test_a_seed_is_a_split_and_another_another():
    table = _numbered({"a": 100, "b": 100})
    first, again, other = (_held(table, 0.1, seed)[1].texts for seed in (0, 0, 1))
    assert first == again != other


def test_numbers_are_no_classes():
    table = _table([f"text {i}" for i in range(50)], [str(i) for i in range(50)])
    train, held = hold_out(table, 0.2, 0)
    assert (len(train), len(held)) == (40, 10)


def test_each_of_several_labels_has_its_share():
    random = np.random.default_rng(0)
    labels = random.random((400, 5)) < [0.02, 0.1, 0.3, 0.5, 0.9]
    labels[:30] = False  # none at all
    table = _table([f"text {i}" for i in range(400)], range(400))
    for seed in range(5):
        train, held = hold_out(table, 0.25, seed, labels)
        assert sorted([*train.labels, *held.labels]) == list(range(400))
        assert abs(len(held) - 100) <= 2
        found = labels[held.labels].sum(axis=0)
        assert np.abs(found - 0.25 * labels.sum(axis=0)).max() <= 2
    assert held.labels != hold_out(table, 0.25, 3, labels)[1].labels
    same = _table([f"text {i % 8}" for i in range(40)], range(40))
    assert count_shared_rows(*hold_out(same, 0.4, 0, np.arange(40)[:, None] % 4 == [0, 1, 3])) == 0


@pytest.mark.parametrize(
    ("counts", "share"), [({"a": 1, "b": 1}, 0.5), ({"a": 3, "b": 3}, 0.01), ({"a": 1}, 0.9)]
)
def test_what_cannot_be_split_is_said(counts, share):
    with pytest.raises(UserError, match=r"data\.holdout"):
        _held(_numbered(counts), share, 0)


def test_rows_without_classes_are_not_said_to_have_one():
    with pytest.raises(UserError, match="Received: 1 distinct text, data.holdout=0.5"):
        hold_out(_numbered({"a": 1}), 0.5, 0)


def test_case_and_blanks_make_no_other_text():
    first, second = (
        Table(texts, None, ["a"] * len(texts), {}, np.arange(len(texts)), [(0, "x")])
        for texts in (["A  film", "b"], [" a film\t", "a films", "B"])
    )
    assert count_shared_rows(first, second) == 2
    texts = [f"{text}{number}" for number in range(20) for text in ("film ", " FILM  ")]
    table = Table(texts, None, ["a"] * 40, {}, np.arange(40), [(0, "x")])
    parts = hold_out(table, 0.3, 1)
    folded = [{" ".join(text.lower().split()) for text in part.texts} for part in parts]
    assert not folded[0] & folded[1] and [len(part) for part in folded] == [14, 6]


@pytest.mark.parametrize("several", [False, True])
def test_a_frequent_text_does_not_fill_the_validation(several):
    labels = ["a", "b"] * 100
    texts = ["the same"] * 60 + [f"text {row}" for row in range(60, 200)]
    encoded = np.eye(2, dtype=bool)[[0, 1] * 100] if several else np.array(labels)
    for seed in range(20):
        train, held = hold_out(_table(texts, labels), 0.1, seed, encoded)
        assert "the same" not in held.texts
        assert abs(len(held) - 20) <= (2 if several else 0)
        assert len(train) + len(held) == 200


def test_the_share_is_of_rows():
    texts = [f"text {row // 3}" for row in range(300)]
    for seed in range(20):
        train, held = hold_out(_table(texts, "a" * 300), 0.1, seed)
        assert (len(train), len(held)) == (270, 30)
        assert not set(train.texts) & set(held.texts)


@pytest.mark.parametrize(
    "classes, texts, copies, wanted",
    [(1, 9, 12, 12), (1, 9, 5, 5), (2, 9, 10, 20), (20, 4, 2, 16), (2, 19, 3, 12)],
)
def test_texts_of_many_rows_come_as_near_as_they_can(classes, texts, copies, wanted):
    rows = [
        (f"text {kind} {n}", str(kind))
        for kind in range(classes)
        for n in range(texts)
        for _ in range(copies)
    ]
    table = _table(*zip(*rows, strict=True))
    train, held = _held(table, 0.1, 0)
    assert len(held) == wanted and len(train) + len(held) == len(rows)
    assert not set(train.texts) & set(held.texts) and len(set(train.labels)) == classes
