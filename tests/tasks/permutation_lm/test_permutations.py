"""Rows of permutation language models, compared with the documents."""

import numpy as np
import pytest

from keras_attn.data.shards.prepare import prepare
from keras_attn.tasks.permutation_lm.examples import PermutationExamples
from keras_attn.text.sentence_pieces import train_sentence_pieces
from tests.support.prepared_documents import TEXTS, documents_of_shards, prepare_documents

TOKENIZER = train_sentence_pieces(TEXTS, 200)
SEP, CLS, PAD, EOD = TOKENIZER.sep_id, TOKENIZER.cls_id, TOKENIZER.pad_id, TOKENIZER.eod_id
LENGTH = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare_documents(tmp_path_factory.mktemp("text"), TOKENIZER)


def streams(folder):
    """Returns the tokens of each shard, with an end-of-document token between documents."""
    return [
        [token for ids in documents for token in [*ids, EOD]][:-1]
        for documents in documents_of_shards(folder)
    ]


def all_rows(folder, **options):
    examples = PermutationExamples(folder, TOKENIZER, length=LENGTH, **options)
    return examples, examples.rows(0, examples.num_examples)


def parts(row):
    """Returns the segments A and B of a row."""
    row = [token for token in row.tolist() if token != PAD]
    assert row[-1] == CLS and row[-2] == SEP and row.count(SEP) == 2
    cut = row.index(SEP)
    return row[:cut], row[cut + 1 : -2]


def chunks(stream):
    return [stream[n : n + LENGTH - 3] for n in range(0, len(stream), LENGTH - 3)]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_evaluation_rows_have_the_order_of_the_text(folder, bidirectional):
    examples, rows = all_rows(folder, exact=True, bidirectional=bidirectional)
    expected = [
        (chunk, number % 2)
        for stream in streams(folder)
        for number, chunk in enumerate(chunks(stream))
    ]
    assert len(expected) == examples.num_examples == len(rows["token_ids"])
    assert len({len(chunk) for chunk, _ in expected}) > 1  # some are short
    for number, (chunk, odd) in enumerate(expected):
        a, b = parts(rows["token_ids"][number])
        assert a + b == (chunk[::-1] if bidirectional and odd else chunk)
        assert len(a) == min(len(chunk), -(-(LENGTH - 3) // 2))
        size = len(chunk) + 3
        wanted = [0] * (len(a) + 1) + [1] * (len(b) + 1) + [2]
        assert rows["segment_ids"][number].tolist() == wanted + [0] * (LENGTH - size)
        assert rows["padding_mask"][number].tolist() == [1] * size + [0] * (LENGTH - size)
        if bidirectional:
            assert rows["reversed_rows"][number] == odd


@pytest.mark.parametrize("bidirectional", [False, True])
def test_each_token_is_in_one_row_of_an_epoch_and_half_of_the_second_segments_are_random(
    folder, bidirectional
):
    own = [TOKENIZER.eod_id] + [token for stream in streams(folder) for token in stream]
    examples, rows = all_rows(folder, seed=4, bidirectional=bidirectional)
    found = [parts(row) for row in rows["token_ids"]]
    texts = sorted(token for pair in found for part in pair for token in part)
    assert texts == sorted(own[1:])
    if bidirectional:
        found = [
            (b[::-1], a[::-1]) if backwards else (a, b)
            for (a, b), backwards in zip(found, rows["reversed_rows"], strict=True)
        ]
    text = " ".join(
        str(token)
        for documents in documents_of_shards(folder)
        for ids in documents
        for token in ids
    )
    follows = np.mean(
        [
            " ".join(map(str, a[-3:] + b[:3])) in text
            for a, b in found
            if EOD not in a[-3:] + b[:3] and min(len(a), len(b)) > 2
        ]
    )
    assert 0.3 < follows < 0.75
    later = examples.rows(examples.num_examples, 2 * examples.num_examples)
    assert (later["token_ids"] != rows["token_ids"]).any()
    texts = sorted(token for row in later["token_ids"] for part in parts(row) for token in part)
    assert texts == sorted(own[1:])


def test_a_fraction_is_predicted_in_an_order_with_the_special_tokens(folder):
    for spans in (False, True):
        _, rows = all_rows(folder, fraction=0.25, spans=spans, seed=1)
        for number, ids in enumerate(rows["token_ids"]):
            weights = rows["mask_weights"][number] > 0
            places = rows["mask_positions"][number][weights]
            assert (rows["mask_ids"][number][weights] == ids[places]).all()
            assert len(set(places.tolist())) == weights.sum()
            real = rows["padding_mask"][number].sum()
            assert 1 <= weights.sum() <= round(0.25 * LENGTH) and weights.sum() <= real / 4 + 1
            assert not np.isin(ids[places], TOKENIZER.special_ids).any()
            ranks = rows["permutation_ranks"][number]
            ranked = set(places.tolist()) | set(np.flatnonzero(np.isin(ids, (SEP, CLS))).tolist())
            assert set(np.flatnonzero(ranks >= 0).tolist()) == ranked
            assert len(set(ranks[ranks >= 0].tolist())) == len(ranked)
    orders = [
        np.argsort(ranks[rows["mask_positions"][n][:3]]).tolist()
        for n, ranks in enumerate(rows["permutation_ranks"])
    ]
    assert len(set(map(tuple, orders))) == 6  # all orders of three occur


def test_spans_are_whole_words_in_either_direction(folder):
    _, rows = all_rows(folder, fraction=0.3, bidirectional=True, seed=2)
    pieces, alone, filled = 0, 0, 0
    for number, ids in enumerate(rows["token_ids"]):
        weights = rows["mask_weights"][number] > 0
        targets = rows["mask_positions"][number][weights]
        assert (rows["mask_ids"][number][weights] == ids[targets]).all()
        targets = set(targets.tolist())
        order = np.flatnonzero(~np.isin(ids, TOKENIZER.special_ids))
        order = order[::-1] if rows["reversed_rows"][number] else order
        words = []
        for place in order.tolist():
            piece = TOKENIZER.vocabulary[ids[place]]
            joined = words and abs(place - words[-1][-1]) == 1 and piece[0] not in "\u2581,."
            words[-1].append(place) if joined else words.append([place])
        # Single tokens are predicted if the remaining budget is smaller than each word.
        single = len(targets) - sum(len(word) for word in words if targets.issuperset(word))
        assert all(len(word) > single for word in words if not targets.issuperset(word)), number
        filled += single > 0
        pieces += len(targets)
        alone += sum(len(word) == 1 for word in words if targets.issuperset(word))
    assert alone < 0.9 * pieces  # there are words of several pieces
    assert filled < len(rows["token_ids"]) / 4


def test_without_spaces_each_row_still_predicts_its_fraction(tmp_path):
    rng = np.random.default_rng(0)
    documents = ["".join(map(chr, rng.integers(0x4E00, 0x4E40, 400))) for _ in range(6)]
    tokenizer = train_sentence_pieces(documents, 120)
    (tmp_path / "a.txt").write_text("\n\n".join(documents), encoding="utf-8")
    prepare(
        str(tmp_path / "a.txt"),
        tokenizer,
        str(tmp_path / "shards"),
        format="lines",
        log=lambda *_: None,
    )
    examples = PermutationExamples(str(tmp_path / "shards"), tokenizer, length=64)
    rows = examples.rows(0, examples.num_examples)
    real, targets = rows["padding_mask"].sum(axis=1), rows["mask_weights"].sum(axis=1)
    np.testing.assert_array_equal(targets, np.rint(real / 6))
    assert len(targets) > 30


@pytest.mark.parametrize("bidirectional", [False, True])
def test_memory_is_the_text_before_a_row(folder, bidirectional):
    memory = 30
    _, rows = all_rows(folder, exact=True, bidirectional=bidirectional, memory=memory)
    number = 0
    for stream in streams(folder):
        for place, chunk in enumerate(chunks(stream)):
            begin = place * (LENGTH - 3)
            if bidirectional and place % 2:
                before = stream[begin + len(chunk) :][:memory][::-1]
            else:
                before = stream[max(0, begin - memory) : begin]
            expected = [PAD] * (memory - len(before)) + before
            assert rows["memory_ids"][number].tolist() == expected
            assert rows["memory_mask"][number].tolist() == [0] * (memory - len(before)) + [1] * len(
                before
            )
            number += 1


def test_a_row_is_a_function_of_its_number(folder):
    options = {"seed": 3, "memory": 8, "bidirectional": True}
    examples, rows = all_rows(folder, **options)
    again, other = (
        PermutationExamples(folder, TOKENIZER, length=LENGTH, **{**options, "seed": seed})
        for seed in (3, 5)
    )
    for number in (7, 0, examples.num_examples - 1):
        for name, array in again.rows(number, number + 1).items():
            np.testing.assert_array_equal(array[0], rows[name][number], err_msg=name)
    assert (other.rows(0, 5)["token_ids"] != rows["token_ids"][:5]).any()


def test_span_lengths_have_the_distribution_of_xlnet(tmp_path):
    # A small fraction of many words: spans are seldom adjacent, and few are cut short.
    (tmp_path / "a.txt").write_text(" ".join("abcdefghij"[n * n % 10] for n in range(60_000)))
    tokenizer = train_sentence_pieces(["a b c d e f g h i j"] * 9, 40)
    prepare(
        str(tmp_path / "a.txt"),
        tokenizer,
        str(tmp_path / "shards"),
        format="paragraphs",
        log=lambda *_: None,
    )
    examples = PermutationExamples(str(tmp_path / "shards"), tokenizer, length=2003, fraction=0.03)
    rows, sizes = examples.rows(0, examples.num_examples), []
    begins = ~tokenizer.continuation[rows["token_ids"]]
    for places, weights, begun in zip(
        rows["mask_positions"], rows["mask_weights"], begins, strict=True
    ):
        places = np.sort(places[weights > 0])
        spans = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        sizes += [int(begun[span].sum()) for span in spans]
    found = np.bincount(sizes, minlength=8)[1:6] / len(sizes)
    np.testing.assert_allclose(found, np.array([60, 30, 20, 15, 12]) / 137, atol=0.07)
