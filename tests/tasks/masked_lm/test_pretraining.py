"""The stream of pretraining examples: content of rows, and consistency of ranges."""

import glob
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.pretraining import masked_examples as pretraining
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from tests.support.small_shards import (
    CLS,
    PAD,
    SEP,
    make_tokenizer,
    mixed_shards,
    prepare,
)

KEYS = {
    "token_ids",
    "segment_ids",
    "padding_mask",
    "mask_positions",
    "mask_ids",
    "mask_weights",
    "next_sentence_label",
}


@pytest.fixture
def folder(tmp_path):
    return prepare(tmp_path / "shards", mixed_shards())


def unmasked(rows):
    """The rows' ids before masking."""
    ids = rows["token_ids"].copy()
    row, slot = np.nonzero(rows["mask_weights"])
    ids[row, rows["mask_positions"][row, slot]] = rows["mask_ids"][row, slot]
    return ids


def assert_same(one, other):
    assert set(one) == set(other) == KEYS
    for key in one:
        np.testing.assert_array_equal(one[key], other[key], err_msg=key)
        assert one[key].dtype == other[key].dtype


@pytest.mark.parametrize(("length", "slots"), [(5, 20), (32, 5), (64, 20)])
def test_a_row_is_cls_a_sep_b_sep_and_padding(folder, length, slots):
    examples = PretrainingExamples(
        folder, make_tokenizer(), length=length, max_predictions=slots, short_fraction=0.5
    )
    rows = examples.rows(0, examples.num_examples)
    assert set(rows) == KEYS
    for key, array in rows.items():
        assert array.dtype == (np.float32 if key == "mask_weights" else np.int32)
    assert rows["token_ids"].shape == (examples.num_examples, length)
    assert rows["mask_positions"].shape == (examples.num_examples, slots)
    for ids, segments, mask, label in zip(
        unmasked(rows),
        rows["segment_ids"],
        rows["padding_mask"],
        rows["next_sentence_label"],
        strict=True,
    ):
        tokens = mask.sum()
        first, second = np.flatnonzero(ids == SEP)
        assert ids[0] == CLS and second == tokens - 1
        assert mask.tolist() == [1] * tokens + [0] * (length - tokens)
        assert segments.tolist() == (
            [0] * (first + 1) + [1] * (second - first) + [0] * (length - tokens)
        )
        assert (ids[tokens:] == PAD).all()
        a, b = ids[1 : first + 1][:-1], ids[first + 1 : second]
        assert len(a) and len(b)
        assert (np.diff(a) == 1).all() and (np.diff(b) == 1).all()
        if label == 0:
            assert b[0] > a[-1] and (b[0] == a[-1] + 1 or tokens == length)


@pytest.mark.parametrize("exact", [False, True])
def test_any_partition_of_a_range_gives_the_same_rows(folder, exact):
    options = {"length": 40, "whole_words": True, "seed": 3, "exact": exact}
    examples = PretrainingExamples(folder, make_tokenizer(), **options)
    total = 3 * examples.num_examples + 5
    whole = examples.rows(0, total)
    cuts = np.unique(np.random.default_rng(0).integers(0, total + 1, 40)).tolist()
    bounds = [(low, high) for low, high in zip([0, *cuts], [*cuts, total], strict=True)]
    parts = {bound: examples.rows(*bound) for bound in bounds}
    assert_same(whole, {k: np.concatenate([parts[b][k] for b in bounds]) for k in KEYS})
    fresh = PretrainingExamples(folder, make_tokenizer(), **options)
    for low, high in reversed(bounds):
        assert_same(fresh.rows(low, high), parts[low, high])


def test_rows_made_by_several_threads_are_the_same(folder):
    bounds = [(low, low + 7) for low in range(0, 700, 7)]
    whole = PretrainingExamples(folder, make_tokenizer(), length=32).rows(0, 700)
    examples = PretrainingExamples(folder, make_tokenizer(), length=32)
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda bound: examples.rows(*bound), bounds))
    assert_same(whole, {key: np.concatenate([part[key] for part in parts]) for key in KEYS})


def test_an_empty_range_has_the_shapes_of_a_batch(folder):
    rows = PretrainingExamples(folder, make_tokenizer(), length=32).rows(7, 7)
    assert rows["token_ids"].shape == (0, 32) and rows["mask_ids"].shape == (0, 20)


@pytest.mark.parametrize("bounds", [(-1, 3), (5, 4)])
def test_an_impossible_range_is_refused(folder, bounds):
    with pytest.raises(ValueError, match="0 <= start <= stop"):
        PretrainingExamples(folder, make_tokenizer()).rows(*bounds)


def test_the_first_epoch_has_each_pair_once_and_later_ones_are_as_long(folder):
    tokenizer, options = make_tokenizer(), {"length": 32, "seed": 1}
    examples = PretrainingExamples(folder, tokenizer, **options)
    exact = PretrainingExamples(folder, tokenizer, exact=True, **options)
    count = exact.num_examples
    assert examples.num_examples == count
    in_order = unmasked(exact.rows(0, count))
    # No token is in the segments A of two pairs, and a shard is walked from its start.
    assert (np.diff(in_order[:, 1]) > 0).all()
    first = unmasked(examples.rows(0, count))
    assert not np.array_equal(first, in_order)
    np.testing.assert_array_equal(np.sort(first, axis=0), np.sort(in_order, axis=0))
    np.testing.assert_array_equal(first[np.argsort(first[:, 1])], in_order)
    shards = np.cumsum([sum(map(sum, documents)) for documents in mixed_shards()]) + 5

    def rows_per_shard(epoch):
        starts = examples.rows(epoch * count, (epoch + 1) * count)
        return np.bincount(np.searchsorted(shards, unmasked(starts)[:, 1], "right"), minlength=4)

    for epoch in (1, 2, 7):
        np.testing.assert_array_equal(rows_per_shard(epoch), rows_per_shard(0))


def test_epochs_and_seeds_differ_in_order_pairs_and_masks(folder):
    tokenizer = make_tokenizer()
    one = PretrainingExamples(folder, tokenizer, length=32, seed=1)
    other = PretrainingExamples(folder, tokenizer, length=32, seed=2)
    count = one.num_examples
    epochs = [one.rows(0, count), one.rows(count, 2 * count), other.rows(0, count)]
    for left, right in ((0, 1), (0, 2), (1, 2)):
        a, b = unmasked(epochs[left]), unmasked(epochs[right])
        size = min(len(a), len(b))
        assert (a[:size, 1] != b[:size, 1]).mean() > 0.8
        pairs = [{row.tobytes() for row in ids} for ids in (a, b)]
        assert len(pairs[0] & pairs[1]) < 0.5 * size


def test_masks_differ_between_epochs_where_the_pair_is_the_same(tmp_path):
    folder = prepare(tmp_path / "one", [[[30, 28]]])
    examples = PretrainingExamples(folder, make_tokenizer(), length=64)
    assert examples.num_examples == 1
    rows = examples.rows(0, 50)
    assert len(np.unique(unmasked(rows), axis=0)) == 1
    assert len(np.unique(rows["mask_positions"], axis=0)) == 50


def test_exact_epochs_are_all_the_first(folder):
    examples = PretrainingExamples(folder, make_tokenizer(), length=32, exact=True)
    count = examples.num_examples
    assert_same(examples.rows(0, count), examples.rows(count, 2 * count))


def test_shards_come_in_another_order_each_epoch(tmp_path):
    folder = prepare(tmp_path / "many", [[[3, 3]]] * 12)
    examples = PretrainingExamples(folder, make_tokenizer(), length=16)
    assert examples.num_examples == 12
    orders = unmasked(examples.rows(0, 36))[:, 1].reshape(3, 12)
    np.testing.assert_array_equal(np.sort(orders, axis=1)[0], 5 + 6 * np.arange(12))
    assert len({tuple(order) for order in orders}) == 3


def test_the_number_of_examples_is_remembered_and_found_again(folder, monkeypatch):
    tokenizer = make_tokenizer()
    count = PretrainingExamples(folder, tokenizer, length=32).num_examples
    with monkeypatch.context() as patch:
        patch.setattr(pretraining, "make_pairs", None)
        assert PretrainingExamples(folder, tokenizer, length=32).num_examples == count
    (remembered,) = glob.glob(f"{folder}/pairs-*.json")
    for damaged in ("", "[1]", "{"):
        with open(remembered, "w") as file:
            file.write(damaged)
        assert PretrainingExamples(folder, tokenizer, length=32).num_examples == count
    other = PretrainingExamples(folder, tokenizer, length=16).num_examples
    assert other > count


def test_a_folder_that_cannot_be_written_is_counted_each_time(folder, monkeypatch):
    def refuse(path, value):
        raise UserError(f"No space. Received: {path}")

    monkeypatch.setattr(pretraining, "write_json", refuse)
    examples = PretrainingExamples(folder, make_tokenizer())
    assert len(examples.rows(0, 5)["token_ids"]) == 5
    assert not glob.glob(f"{folder}/pairs-*.json")


def test_shards_without_a_pair_give_no_rows(tmp_path):
    folder = prepare(tmp_path / "few", [[[4]], [[3], [3]], [[9]], []])
    examples = PretrainingExamples(folder, make_tokenizer(), length=16)
    assert examples.num_examples == 2
    assert set(unmasked(examples.rows(0, 40))[:, 1]) <= set(range(9, 15))


@pytest.mark.parametrize("shards", [[], [[[7]]], [[[1]], [[4]]]])
def test_a_text_without_a_pair_is_an_error(tmp_path, shards):
    folder = prepare(tmp_path / "none", shards)
    with pytest.raises(UserError, match="two sentences"):
        PretrainingExamples(folder, make_tokenizer())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 4}, "data.length=4"),
        ({"max_predictions": 0}, "data.max_predictions=0"),
        ({"masked_fraction": 0.0}, "data.masked_fraction=0.0"),
        ({"masked_fraction": 0.0, "max_predictions": 0}, "data.masked_fraction=0.0"),
        ({"masked_fraction": 1.5}, "data.masked_fraction=1.5"),
        ({"short_fraction": -0.1}, "data.short_fraction=-0.1"),
        ({"short_fraction": 1.1}, "data.short_fraction=1.1"),
        ({"seed": -1}, "train.seed=-1"),
    ],
)
def test_options_out_of_range_are_refused_with_and_without_data(folder, options, message):
    with pytest.raises(UserError, match=f"Received: {message}$"):
        PretrainingExamples(folder, make_tokenizer(), **options)
    good = {"length": 5, "max_predictions": 1, "masked_fraction": 1.0, "short_fraction": 0.0}
    pretraining.check_options(**good, seed=0)
    with pytest.raises(UserError, match=f"Received: {message}$"):
        pretraining.check_options(**{**good, "seed": 0, **options})


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (make_tokenizer(sha256="other"), "vocabulary"),
        (make_tokenizer(lowercase=False), "lowercase"),
    ],
)
def test_shards_of_another_vocabulary_are_errors(folder, tokenizer, message):
    with pytest.raises(UserError, match=message):
        PretrainingExamples(folder, tokenizer)


@pytest.mark.parametrize("pack", [1, 4])
def test_the_masked_fraction_changes_linearly_whatever_the_range_of_rows(folder, pack):
    examples = PretrainingExamples(
        folder,
        make_tokenizer(),
        length=64,
        max_predictions=26,
        masked_fraction=0.4,
        masked_fraction_end=0.1,
        segments="documents" if pack > 1 else "next_sentence",
        pack=pack,
    )
    count = examples.num_examples
    before = examples.rows(0, count)["mask_weights"].sum()
    examples.expected_rows = 2 * count
    rows = examples.rows(0, 3 * count)
    tokens = rows["padding_mask"].sum(axis=1)
    found = rows["mask_weights"].sum(axis=1) / tokens
    wanted = 0.4 - 0.3 * np.minimum(np.arange(3 * count) / (2 * count), 1)
    np.testing.assert_allclose(found, wanted, atol=0.1)
    for part in (slice(0, count), slice(2 * count, 3 * count)):
        assert abs(found[part].mean() - wanted[part].mean()) < 0.02
    assert before > rows["mask_weights"][:count].sum()
    parts = [examples.rows(*ends) for ends in ((0, 5), (5, count + 3), (count + 3, 3 * count))]
    for key, array in rows.items():
        np.testing.assert_array_equal(np.concatenate([part[key] for part in parts]), array)
