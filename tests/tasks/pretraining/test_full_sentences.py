"""Rows of full sentences, compared with a slow implementation."""

import numpy as np
import pytest

from keras_attn.tasks.pretraining.full_sentences import make_document_rows, make_full_rows
from keras_attn.tasks.pretraining.masked_examples import lay_out_rows
from tests.support.sentence_pairs import make_shard, random_documents

SEPARATOR = 10**6


class Tokenizer:
    pad_id, cls_id, sep_id = -1, -2, SEPARATOR


def rows_of(documents, length, seed=0):
    rng = np.random.default_rng(seed)
    return make_full_rows(make_shard(documents), length=length, separator=SEPARATOR, rng=rng)


def fill_slowly(documents, order, room):
    """Rows of tokens: sentence after sentence, a separator between documents."""
    starts = np.cumsum([0] + [sum(document) for document in documents])
    pieces = []
    for number in order:
        at = int(starts[number])
        for length in documents[number]:
            pieces.append(list(range(at, at + length)))
            at += length
        pieces[-1].append(SEPARATOR)
    rows, row = [], []
    for piece in pieces:
        words = [token for token in piece if token != SEPARATOR]
        if row and len(row) + len(words) > room:
            rows.append(row)
            row = []
        while len(words) > room:
            rows.append(words[:room])
            words = words[room:]
        row = row + words + ([SEPARATOR] if piece[-1] == SEPARATOR else [])
    rows.append(row)
    return [row[:-1] if row[-1] == SEPARATOR else row for row in rows]


@pytest.mark.parametrize("length", [3, 8, 40, 128, 1000])
def test_rows_are_those_of_a_slow_filling(length):
    documents = random_documents(3, count=60)
    order = np.random.default_rng(5).permutation(len(documents))
    ids, rows = rows_of(documents, length, seed=5)
    found = [
        ids[start : start + size].tolist()
        for start, size in zip(rows.start, rows.length, strict=True)
    ]
    assert found == fill_slowly(documents, order, length - 2)


def test_every_token_comes_once_and_documents_in_another_order_each_time():
    documents = random_documents(4)
    orders = set()
    for seed in range(3):
        ids, rows = rows_of(documents, 64, seed)
        tokens = np.concatenate(
            [ids[start : start + size] for start, size in zip(rows.start, rows.length, strict=True)]
        )
        words = tokens[tokens != SEPARATOR]
        assert sorted(words) == list(range(sum(map(sum, documents))))
        orders.add(tuple(words[:200]))
    assert len(orders) == 3


def test_rows_are_laid_out_with_their_specials():
    ids, rows = rows_of([[3, 2], [4], [1]], 8)
    batch = lay_out_rows(ids, rows, Tokenizer, 8)
    for row, start, size in zip(batch["token_ids"], rows.start, rows.length, strict=True):
        expected = [-2, *ids[start : start + size], SEPARATOR]
        assert row.tolist() == expected + [-1] * (8 - len(expected))
    np.testing.assert_array_equal(batch["padding_mask"], batch["token_ids"] != -1)
    assert not batch["segment_ids"].any() and "next_sentence_label" not in batch


@pytest.mark.parametrize("length", [3, 8, 40, 1000])
def test_rows_of_documents_have_all_tokens_of_one_document_each(length):
    documents = random_documents(3, count=60)
    rows = make_document_rows(make_shard(documents), length=length)
    found = [list(range(a, a + n)) for a, n in zip(rows.start, rows.length, strict=True)]
    expected, at = [], 0
    for document in documents:
        tokens = list(range(at, at + sum(document)))
        at += len(tokens)
        expected += [tokens[i : i + length - 2] for i in range(0, len(tokens), length - 2)]
    assert found == expected
