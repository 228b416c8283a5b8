"""Batches of labelled texts against rows made by hand, and what must not change."""

import numpy as np
import pytest

from keras_attn.data.text_examples import TextExamples, cut_longest_first, tokenize_texts
from keras_attn.errors import UserError
from keras_attn.text.wordpiece import WordPieceTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(50)]
PAD, CLS, SEP = 0, 2, 3


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(PIECES)


def _texts(seed, rows, longest=60):
    random = np.random.default_rng(seed)
    lengths = random.integers(0, longest, rows)
    return [" ".join(f"w{i}" for i in random.integers(0, 50, length)) for length in lengths]


def _word_ids(text):
    return [PIECES.index(word) for word in text.split()]


def _examples(tokenizer, rows=203, pairs=False, **options):
    texts = _texts(1, rows)
    second = _texts(2, rows) if pairs else None
    options = {"length": 128, "batch_size": 8, "seed": 3, **options}
    return TextExamples(texts, second, np.arange(rows, dtype=np.int32), tokenizer, **options)


def _epoch(examples, epoch=0):
    start = epoch * examples.num_batches
    return [examples.batch(start + i) for i in range(examples.num_batches)]


def _real_labels(batches):
    return np.concatenate([b["label"][b["sample_weight"] == 1] for b in batches])


def test_rows_are_cls_text_sep(tokenizer):
    examples = TextExamples(
        ["w1 w2", "", "w3 nonsense"], None, None, tokenizer, batch_size=3, shuffle=False, length=8
    )
    batch = examples.batch(0)
    assert set(batch) == {"token_ids", "segment_ids", "padding_mask", "sample_weight"}
    np.testing.assert_array_equal(
        batch["token_ids"],
        [[2, 6, 7, 3, 0, 0, 0, 0], [2, 3, 0, 0, 0, 0, 0, 0], [2, 8, 1, 3, 0, 0, 0, 0]],
    )
    np.testing.assert_array_equal(batch["padding_mask"].sum(axis=1), [4, 2, 4])
    assert not batch["segment_ids"].any()
    assert batch["token_ids"].dtype == batch["segment_ids"].dtype == np.int32
    assert batch["padding_mask"].dtype == np.int32 and batch["sample_weight"].dtype == np.float32


def test_pairs_are_cls_text_sep_pair_sep(tokenizer):
    examples = TextExamples(
        ["w1 w2", "w1", ""],
        ["w3", "", ""],
        np.array([0.5, 1.5, 2.5], np.float32),
        tokenizer,
        batch_size=3,
        shuffle=False,
        length=8,
    )
    batch = examples.batch(0)
    np.testing.assert_array_equal(
        batch["token_ids"],
        [[2, 6, 7, 3, 8, 3, 0, 0], [2, 6, 3, 3, 0, 0, 0, 0], [2, 3, 3, 0, 0, 0, 0, 0]],
    )
    np.testing.assert_array_equal(
        batch["segment_ids"],
        [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0]],
    )
    np.testing.assert_array_equal(batch["padding_mask"].sum(axis=1), [6, 4, 3])
    np.testing.assert_array_equal(batch["label"], np.float32([0.5, 1.5, 2.5]))
    assert batch["label"].dtype == np.float32


def test_random_pairs_equal_rows_made_one_by_one(tokenizer):
    examples = _examples(tokenizer, pairs=True, length=40, shuffle=False)
    first, second = _texts(1, 203), _texts(2, 203)
    cut = 0
    rows = [row for batch in _epoch(examples) for row in batch["token_ids"]]
    for a, b, row in zip(first, second, rows, strict=False):
        a, b = _word_ids(a), _word_ids(b)
        cut += len(a) + len(b) > 37
        while len(a) + len(b) > 37:  # as google-research/bert's _truncate_seq_pair
            (a if len(a) > len(b) else b).pop()
        expected = [CLS, *a, SEP, *b, SEP]
        assert row.tolist() == expected + [PAD] * (len(row) - len(expected))
    assert cut > 0 and examples.num_cut == cut


def test_long_texts_are_cut_and_counted(tokenizer):
    texts = [" ".join(["w1"] * n) for n in (5, 6, 7, 60)]
    examples = TextExamples(texts, None, None, tokenizer, batch_size=4, length=8, shuffle=False)
    assert examples.num_cut == 2
    assert examples.row_lengths.tolist() == [7, 8, 8, 8]
    batch = examples.batch(0)
    assert batch["token_ids"].shape == (4, 8)
    assert batch["token_ids"][:, -1].tolist() == [PAD, SEP, SEP, SEP]


def test_cutting_equals_popping_the_longer_list():
    lengths = [(a, b, room) for a in range(9) for b in range(9) for room in range(2, 12)]
    for a, b, room in lengths:
        x, y = a, b
        while x + y > room:
            x, y = (x - 1, y) if x > y else (x, y - 1)
        found = cut_longest_first(np.array([a]), np.array([b]), room)
        assert (found[0][0], found[1][0]) == (x, y), (a, b, room)


@pytest.mark.parametrize("rows", [1, 7, 8, 203, 1600])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_example_is_there_once_an_epoch(tokenizer, rows, shuffle):
    examples = _examples(tokenizer, rows=rows, shuffle=shuffle)
    assert examples.num_examples == rows
    assert examples.num_batches == -(-rows // 8)
    for epoch in (0, 1, 5):
        batches = _epoch(examples, epoch)
        assert sorted(_real_labels(batches)) == list(range(rows))
        assert all(len(batch["label"]) == 8 for batch in batches)
        assert all(batch["sample_weight"].all() for batch in batches[:-1])


def test_rows_that_fill_up_are_empty(tokenizer):
    batch = _epoch(_examples(tokenizer, rows=11))[-1]
    assert batch["sample_weight"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
    for key in ("token_ids", "segment_ids", "padding_mask", "label"):
        assert not batch[key][3:].any()


def test_a_batch_is_a_function_of_seed_and_index(tokenizer):
    ordered, jumping = _examples(tokenizer), _examples(tokenizer)
    batches = [ordered.batch(i) for i in range(60)]
    for index in (59, 0, 31, 30, 59, 26, 25):
        again = jumping.batch(index)
        for key, value in batches[index].items():
            np.testing.assert_array_equal(again[key], value)


def test_order_depends_on_seed_and_epoch(tokenizer):
    examples, other = _examples(tokenizer), _examples(tokenizer, seed=4)
    orders = [_real_labels(_epoch(e, n)).tolist() for e, n in ((examples, 0), (examples, 1),
                                                             (other, 0))]  # fmt: skip
    assert orders[0] != orders[1] and orders[0] != orders[2] and orders[1] != orders[2]


def test_without_shuffling_rows_keep_their_order(tokenizer):
    examples = _examples(tokenizer, shuffle=False)
    for epoch in (0, 1):
        assert _real_labels(_epoch(examples, epoch)).tolist() == list(range(203))


def test_labels_stay_with_their_texts(tokenizer):
    texts = _texts(1, 203)
    for batch in _epoch(_examples(tokenizer), 2):
        for row, label, weight in zip(
            batch["token_ids"], batch["label"], batch["sample_weight"], strict=True
        ):
            if weight:
                ids = _word_ids(texts[label])
                assert row[: len(ids) + 2].tolist() == [CLS, *ids, SEP]


@pytest.mark.parametrize(
    ("length", "buckets", "expected"),
    [
        (128, None, [32, 64, 96, 128]),
        (100, None, [32, 64, 96, 100]),
        (20, None, [20]),
        (64, (16, 48), [16, 48, 64]),
        (40, [64, 8], [8, 40]),
    ],
)
def test_a_batch_has_the_smallest_bucket_that_fits(tokenizer, length, buckets, expected):
    examples = _examples(tokenizer, length=length, buckets=buckets, batch_size=3)
    assert examples.buckets.tolist() == expected
    widths = set()
    for batch in _epoch(examples):
        longest = batch["padding_mask"].sum(axis=1).max()
        width = batch["token_ids"].shape[1]
        assert width == min(bucket for bucket in expected if bucket >= longest)
        widths.add(width)
    assert len(widths) > 1 or len(expected) == 1


def test_rows_of_a_batch_are_of_similar_length(tokenizer):
    def padded_share(**order):
        batches = _epoch(_examples(tokenizer, rows=1600, buckets=range(1, 128), **order))
        return 1 - np.mean(np.concatenate([b["padding_mask"].reshape(-1) for b in batches]))

    assert padded_share(shuffle=True) < 0.1 < 0.4 < padded_share(shuffle=False)
    assert padded_share(by_length=False) > 0.4


def test_without_regard_to_length_every_example_is_there_once_in_a_new_order(tokenizer):
    examples = _examples(tokenizer, rows=203, by_length=False)
    labels = [_real_labels(_epoch(examples, epoch)) for epoch in (0, 1)]
    assert sorted(labels[0]) == sorted(labels[1]) == list(range(203))
    assert list(labels[0]) != list(labels[1])


def test_short_and_long_batches_are_mixed(tokenizer):
    examples = _examples(tokenizer, rows=1600)
    means = np.array([b["padding_mask"].sum(axis=1).mean() for b in _epoch(examples)])
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.3


def test_what_cannot_be_batched_is_refused(tokenizer):
    def make(texts=("w1",), pairs=None, labels=None, **options):
        return TextExamples(list(texts), pairs, labels, tokenizer, **{"batch_size": 2, **options})

    with pytest.raises(UserError, match="at least one text"):
        make(())
    with pytest.raises(UserError, match="length=2"):
        make(length=2)
    with pytest.raises(UserError, match="length=4"):
        make(pairs=["w1"], length=4)
    with pytest.raises(UserError, match="batch_size=0"):
        make(batch_size=0)
    with pytest.raises(ValueError, match="labels"):
        make(labels=np.zeros(2, np.int32))


def test_weights_stay_with_their_texts(tokenizer):
    texts, weights = [f"word {i}" for i in range(20)], np.arange(1, 21, dtype=np.float32)
    labels = np.arange(20, dtype=np.int32)
    examples = TextExamples(
        texts, None, labels, tokenizer, length=16, batch_size=8, weights=weights
    )
    batches = [examples.batch(i) for i in range(3)]
    pairs = [
        pair
        for batch in batches
        for pair in zip(batch["label"], batch["sample_weight"], strict=True)
    ]
    found = {int(label): weight for label, weight in pairs if weight}
    assert found == {label: label + 1.0 for label in range(20)}


@pytest.mark.parametrize("windows", [None, 2])
def test_labels_of_tokens_stay_with_their_tokens(tokenizer, windows):
    texts = [text or "a" for text in _texts(5, 50)]
    tokens = tokenize_texts(texts, None, tokenizer)
    labels = tokens.ids.astype(np.int32) % 7  # a function of the token
    examples = TextExamples(
        texts,
        None,
        None,
        tokenizer,
        length=16,
        batch_size=8,
        windows=windows,
        tokens=tokens,
        token_labels=labels,
    )
    for batch in _epoch(examples):
        ids = batch["token_ids"]
        special = np.isin(ids, [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id])
        np.testing.assert_array_equal(batch["label"], np.where(special, -1, ids % 7))
