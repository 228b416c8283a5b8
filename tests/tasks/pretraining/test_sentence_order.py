"""Pairs of segments in order or swapped, and what they cover."""

import numpy as np
import pytest

from keras_attn.tasks.pretraining.sentence_order import make_ordered_pairs
from tests.support.sentence_pairs import document_of, make_shard, near, random_documents, spans


def pairs_of(documents, seed=0, length=64, short_fraction=0.0):
    rng = np.random.default_rng(seed)
    return make_ordered_pairs(
        make_shard(documents), length=length, short_fraction=short_fraction, rng=rng
    )


@pytest.mark.parametrize("length", [5, 16, 64, 300])
@pytest.mark.parametrize("short_fraction", [0.0, 1.0])
def test_both_segments_are_of_one_document_and_the_label_is_their_order(length, short_fraction):
    documents = random_documents(1)
    pairs = pairs_of(documents, length=length, short_fraction=short_fraction)
    document = document_of(documents)
    assert pairs.a_length.min() >= 1 and pairs.b_length.min() >= 1
    assert (pairs.a_length + pairs.b_length).max() <= length - 3
    for start, size in ((pairs.a_start, pairs.a_length), (pairs.b_start, pairs.b_length)):
        np.testing.assert_array_equal(document[start], document[start + size - 1])
    np.testing.assert_array_equal(document[pairs.a_start], document[pairs.b_start])
    np.testing.assert_array_equal(pairs.label == 1, pairs.b_start < pairs.a_start)
    assert near(pairs.label.mean(), 0.5, len(pairs))


def test_uncut_pairs_are_neighbours_that_meet_between_sentences():
    documents = random_documents(2, tokens=6)
    pairs = pairs_of(documents, length=64)
    ends = {end for document in spans(documents) for _, end in document}
    lonely = {document[-1] for document in spans(documents)}
    uncut = pairs.a_length + pairs.b_length < 61
    assert uncut.sum() > 100
    first = np.minimum(pairs.a_start, pairs.b_start)
    second = np.maximum(pairs.a_start, pairs.b_start)
    size = np.where(pairs.label == 0, pairs.a_length, pairs.b_length)
    np.testing.assert_array_equal((first + size)[uncut], second[uncut])
    stop = first + pairs.a_length + pairs.b_length
    for begin, middle, end in zip(first[uncut], second[uncut], stop[uncut], strict=True):
        assert end in ends
        assert middle in ends or (begin, end) in lonely


def test_short_text_is_covered_once_but_for_single_tokens():
    documents = [[3, 2, 4], [1], [5], [2, 1], [1, 1, 1]]
    pairs, seen = pairs_of(documents, length=64), []
    for start, size in ((pairs.a_start, pairs.a_length), (pairs.b_start, pairs.b_length)):
        for first, count in zip(start, size, strict=True):
            seen += range(first, first + count)
    assert sorted(seen) == [i for i in range(21) if i != 9]


def test_the_split_differs_between_epochs():
    documents = [[2] * 10]
    cuts = {int(pairs_of(documents, seed=seed).a_length[0]) for seed in range(60)}
    assert cuts == set(range(2, 20, 2))
