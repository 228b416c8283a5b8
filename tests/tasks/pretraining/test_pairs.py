"""Next-sentence pairs against BERT's walk, written out slowly, and against its statistics."""

import itertools
import random

import numpy as np
import pytest

from keras_attn.tasks.pretraining.pairs import make_pairs
from tests.support.quick import quick
from tests.support.sentence_pairs import document_of, make_shard, near, random_documents, spans


def pairs_of(documents, seed=0, length=64, short_fraction=0.0):
    rng = np.random.default_rng(seed)
    return make_pairs(make_shard(documents), length=length, short_fraction=short_fraction, rng=rng)


def truncate_slowly(a, b, room, draw):
    """Drops a token of the longer list at a random end until both fit."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if draw.random() < 0.5 else -1)
    return a, b


@pytest.mark.parametrize("length", [5, 6, 16, 64, 300])
@pytest.mark.parametrize("short_fraction", [0.0, 0.1, 1.0])
def test_segments_are_nonempty_ranges_inside_one_document(length, short_fraction):
    documents = random_documents(1)
    pairs = pairs_of(documents, length=length, short_fraction=short_fraction)
    document = document_of(documents)
    a_last, b_last = pairs.a_start + pairs.a_length - 1, pairs.b_start + pairs.b_length - 1
    assert pairs.a_length.min() >= 1 and pairs.b_length.min() >= 1
    assert (pairs.a_length + pairs.b_length).max() == length - 3
    np.testing.assert_array_equal(document[pairs.a_start], document[a_last])
    np.testing.assert_array_equal(document[pairs.b_start], document[b_last])
    same = document[pairs.a_start] == document[pairs.b_start]
    np.testing.assert_array_equal(same, pairs.label == 0)
    assert (pairs.b_start > a_last)[pairs.label == 0].all()


@pytest.mark.parametrize("length", [16, 64, 300])
def test_pairs_that_were_not_cut_are_those_of_a_slow_walk(length):
    documents = random_documents(2, count=500, tokens=6)
    pairs = pairs_of(documents, length=length)
    sentences = spans(documents)
    first = {s[0]: (d, i) for d, document in enumerate(sentences) for i, s in enumerate(document)}
    last = {s[1]: (d, i) for d, document in enumerate(sentences) for i, s in enumerate(document)}
    checked = 0
    for a_start, a_length, b_start, b_length, label in zip(
        pairs.a_start, pairs.a_length, pairs.b_start, pairs.b_length, pairs.label, strict=True
    ):
        if a_length + b_length >= length - 3:
            continue  # Perhaps cut: its sentences are not known.
        checked += 1
        document, i = first[a_start]
        assert last[a_start + a_length][0] == document
        tokens, end = 0, i
        while end < len(documents[document]) and (tokens < length - 3 or end < i + 2):
            tokens += documents[document][end]
            end += 1
        if label == 0:
            assert b_start == a_start + a_length
            assert last[b_start + b_length] == (document, end - 1)
        else:
            other, j = first[b_start]
            _, k = last[b_start + b_length]
            rest = length - 3 - a_length
            tokens = documents[other][j : k + 1]
            assert other != document
            assert sum(tokens) >= rest or k + 1 == len(documents[other])
            assert sum(tokens[:-1]) < rest
    assert checked > 100


def test_sentences_are_used_once_and_unused_ones_are_put_back():
    # Sentences of one token are never cut, so each start follows from the pair before.
    documents = [[1] * size for size in (50, 1, 7, 300, 2, 61)]
    pairs = pairs_of(documents, length=23)
    bounds = np.cumsum([0] + [len(document) for document in documents])
    expected = 0
    for a_start, a_length, b_start, b_length, label in zip(
        pairs.a_start, pairs.a_length, pairs.b_start, pairs.b_length, pairs.label, strict=True
    ):
        assert a_start == expected
        end = bounds[np.searchsorted(bounds, a_start, "right")]
        if label == 0:
            assert b_start == a_start + a_length
            assert b_start + b_length == min(a_start + 20, end)
            expected = b_start + b_length
        else:
            expected = a_start + a_length
    assert expected == bounds[-1]


def test_the_split_is_uniform_over_the_sentences_of_a_chunk():
    lengths = pairs_of([[1] * 100_000, [1]], length=14).a_length
    counts = np.bincount(lengths, minlength=11)[1:]
    assert len(counts) == 10  # 11 sentences fill the chunk; A has 1 to 10 of them.
    assert all(near(count / len(lengths), 0.1, len(lengths)) for count in counts)


def test_short_targets_are_uniform_and_as_frequent_as_asked():
    documents = [[1] * 300_000, [1] * 1000]
    pairs = pairs_of(documents, length=13, short_fraction=1.0)
    size = (pairs.a_length + pairs.b_length)[pairs.label == 0]
    share = np.bincount(size, minlength=11)[2:11] / len(size)
    assert size.min() == 2 and size.max() == 10
    assert all(near(part, 1 / 9, len(size)) for part in share)
    pairs = pairs_of(documents, length=103, short_fraction=0.1)
    true = pairs.label == 0
    short = (pairs.a_length + pairs.b_length)[true] < 100
    assert near(short.mean(), 0.1 * 98 / 99, true.sum())


SIZES = [(5, 9), (9, 5), (40, 3), (3, 40), (50, 50), (51, 50), (90, 2)]


@pytest.mark.parametrize(
    "sizes, length",
    quick(
        list(itertools.product(SIZES, (5, 10, 23, 24))),
        *zip(SIZES, (5, 10, 23, 24, 23, 24, 10), strict=True),
    ),
)
def test_long_pairs_are_cut_as_one_token_at_a_time_from_the_longer(sizes, length):
    draw = random.Random(0)
    a, b = np.arange(sizes[0]), np.arange(sizes[0], sum(sizes))
    ours, slow = [], []
    for seed in range(400):
        pairs = pairs_of([sizes], seed=seed, length=length)
        assert pairs.label.tolist() == [0]
        ours.append((pairs.a_start[0], pairs.b_start[0] - sizes[0]))
        kept = truncate_slowly(a, b, length - 3, draw)
        slow.append((kept[0][0], kept[1][0] - sizes[0]))
        assert (pairs.a_length[0], pairs.b_length[0]) == (len(kept[0]), len(kept[1]))
    ours, slow = np.array(ours), np.array(slow)
    cut = np.array(sizes) - [len(kept[0]), len(kept[1])]
    deviation = np.sqrt(cut / 4)
    assert (np.abs(ours.mean(axis=0) - cut / 2) <= 4 * deviation / 20).all()
    assert (np.abs(ours.mean(axis=0) - slow.mean(axis=0)) <= 6 * deviation / 20).all()
    assert (np.abs(ours.std(axis=0) - deviation) <= 0.2 * deviation).all()


@pytest.mark.parametrize(
    "documents",
    [
        random_documents(3, count=2000),
        [[20, 20, 20]] * 6000,
        [[7, 5]] * 6000,
        [[100, 80, 90, 120, 70]] * 3000,
        [[3], [4, 9, 10, 12, 18, 3]] * 3000,
    ],
    ids=["mixed", "three sentences", "two sentences", "long sentences", "half of one sentence"],
)
@pytest.mark.parametrize("length", [16, 64])
def test_half_of_the_labels_are_random_on_any_corpus(documents, length):
    label = pairs_of(documents, length=length, short_fraction=0.1).label
    assert near(label.mean(), 0.5, len(label))


def test_random_segments_start_at_any_sentence_of_the_other_documents():
    documents = [[1] * 40, [1] * 10, [1] * 30, [1] * 20]
    document, starts = document_of(documents), {number: [] for number in range(4)}
    for seed in range(1500):
        pairs = pairs_of(documents, seed=seed, length=12)
        for a, b, label in zip(pairs.a_start, pairs.b_start, pairs.label, strict=True):
            if label:
                starts[document[a]].append(b)
    for own, found in starts.items():
        counts = np.bincount(found, minlength=100) / len(found)
        assert (counts[document == own] == 0).all()
        others = document != own
        assert np.abs(counts[others] - 1 / others.sum()).max() < 5 / np.sqrt(len(found) * 60)


def test_a_single_document_gives_random_segments_from_outside_the_chunk():
    documents = [[4] * 12]
    labels = []
    for seed in range(300):
        pairs = pairs_of(documents, seed=seed, length=19)
        labels.extend(pairs.label)
        for a, a_length, b, b_length, label in zip(
            pairs.a_start, pairs.a_length, pairs.b_start, pairs.b_length, pairs.label, strict=True
        ):
            if label:
                assert b + b_length <= a or b > a + a_length
    assert 0.4 < np.mean(labels) < 0.6


@pytest.mark.parametrize(
    ("documents", "labels"),
    [([], []), ([[9]], []), ([[1, 1]], [0]), ([[1], [1]], [1, 1]), ([[200, 1]], [0])],
)
def test_the_smallest_texts_give_the_pairs_they_have(documents, labels):
    for seed in range(20):
        assert pairs_of(documents, seed=seed, length=5).label.tolist() == labels


def test_pairs_are_a_function_of_the_seed():
    documents = random_documents(4)
    one, same, other = (pairs_of(documents, seed=seed) for seed in (1, 1, 2))
    for name in ("a_start", "a_length", "b_start", "b_length", "label"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    assert len(one) != len(other) or (one.b_start != other.b_start).mean() > 0.5
