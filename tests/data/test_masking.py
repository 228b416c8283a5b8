"""Masks against BERT's counts and shares, row by row."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_attn.data.masking import Masker, spanbert_lengths, xlnet_lengths

PAD, UNK, CLS, SEP, MASK = range(5)


def make_tokenizer(size=60, whole_from=None):
    continuation = np.zeros(size, bool)
    if whole_from:
        continuation[whole_from:] = True
    return SimpleNamespace(
        mask_id=MASK,
        special_ids=np.arange(5, dtype=np.int32),
        vocabulary_size=size,
        continuation=continuation,
    )


def make_rows(count, length, seed=0, size=60, full=False):
    """Random rows `[CLS] A [SEP] B [SEP]` with padding."""
    rng = np.random.default_rng(seed)
    room = length - 3
    total = np.full(count, room) if full else rng.integers(2, room + 1, count)
    a = 1 + (rng.random(count) * (total - 1)).astype(int)
    rows = np.zeros((count, length), np.int32)
    for row, (tokens, a_length) in enumerate(zip(total, a, strict=True)):
        rows[row, : tokens + 3] = rng.integers(5, size, tokens + 3)
        rows[row, [0, a_length + 1, tokens + 2]] = CLS, SEP, SEP
    return rows, total + 3


def mask(rows, *, first=0, seed=0, tokenizer=None, **options):
    ids, tokens = rows
    options = {"length": ids.shape[1], "max_predictions": 20, **options}
    masker = Masker(tokenizer or make_tokenizer(), **options)
    return masker(ids, tokens, np.random.SeedSequence(seed), first)


def near(share, expected, count):
    return abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize(("length", "slots"), [(5, 20), (5, 1), (33, 4), (128, 20), (129, 77)])
@pytest.mark.parametrize("fraction", [0.01, 0.15, 1.0])
def test_each_row_has_the_number_of_predictions_of_bert(length, slots, fraction):
    rows = make_rows(300, length)
    out = mask(rows, max_predictions=slots, fraction=fraction)
    for tokens, positions, ids, weights, row in zip(
        rows[1],
        out["mask_positions"],
        out["mask_ids"],
        out["mask_weights"],
        rows[0],
        strict=True,
    ):
        expected = min(slots, max(1, round(fraction * tokens)), tokens - 3)
        assert weights.tolist() == [1.0] * expected + [0.0] * (slots - expected)
        used = positions[:expected]
        assert (np.diff(used) > 0).all()
        assert (row[used] >= 5).all() and (used < tokens).all()
        np.testing.assert_array_equal(ids[:expected], row[used])
        assert not positions[expected:].any() and not ids[expected:].any()


def test_rows_may_have_their_own_fractions():
    ids, tokens = make_rows(40, 50, full=True)
    masker = Masker(make_tokenizer(), length=50, max_predictions=20, fraction=0.4)
    fractions = np.linspace(0.4, 0.1, 40)
    found = masker(ids, tokens, np.random.SeedSequence(0), 0, fractions)
    counts = found["mask_weights"].sum(axis=1)
    np.testing.assert_array_equal(counts, np.rint(fractions * tokens))
    # A row with a smaller fraction has some of the masks of the larger one.
    whole = masker(ids, tokens, np.random.SeedSequence(0), 0)
    for row, other, count in zip(
        found["mask_positions"], whole["mask_positions"], counts, strict=True
    ):
        assert set(row[: int(count)]) <= set(other)


def test_only_predicted_tokens_change_and_the_input_stays():
    rows = make_rows(500, 64)
    before = rows[0].copy()
    out = mask(rows)
    np.testing.assert_array_equal(rows[0], before)
    restored = out["token_ids"].copy()
    row, slot = np.nonzero(out["mask_weights"])
    restored[row, out["mask_positions"][row, slot]] = out["mask_ids"][row, slot]
    np.testing.assert_array_equal(restored, before)
    assert out["token_ids"].dtype == out["mask_ids"].dtype == np.int32
    assert out["mask_positions"].dtype == np.int32 and out["mask_weights"].dtype == np.float32


def test_all_predicted_tokens_may_be_masked():
    rows = make_rows(100, 32)
    out, usual = mask(rows, mask_rate=1.0, random_rate=0.0), mask(rows)
    row, slot = np.nonzero(out["mask_weights"])
    found = out["token_ids"][row, out["mask_positions"][row, slot]]
    assert set(found) == {make_tokenizer().mask_id}
    np.testing.assert_array_equal(out["mask_positions"], usual["mask_positions"])


def test_a_mask_does_not_depend_on_the_rows_made_with_it():
    for whole_words in (False, True):
        options = {
            "whole_words": whole_words,
            "tokenizer": make_tokenizer(whole_from=40),
        }
        rows = make_rows(100, 37)
        whole = mask(rows, **options)
        cuts = [0, 1, 2, 31, 64, 100]
        parts = [
            mask(tuple(part[low:high] for part in rows), first=low, **options)
            for low, high in zip(cuts, cuts[1:], strict=False)
        ]
        for name, array in whole.items():
            np.testing.assert_array_equal(array, np.concatenate([part[name] for part in parts]))
        assert (mask(rows, seed=1, **options)["token_ids"] != whole["token_ids"]).any()
        assert (mask(rows, first=1, **options)["token_ids"] != whole["token_ids"]).any()


def test_positions_are_chosen_uniformly():
    rows = make_rows(40_000, 23, full=True)
    ids = np.where(rows[0] == SEP, 5, rows[0])  # 22 ordinary tokens.
    out = mask((ids, rows[1]))
    chosen = np.bincount(out["mask_positions"][out["mask_weights"] > 0], minlength=23) / len(ids)
    assert chosen[0] == 0
    assert all(near(share, 3 / 22, len(ids)) for share in chosen[1:])
    pair = (out["mask_positions"][:, :3] == [1, 2, 3]).all(axis=1).mean()
    assert near(pair, 3 * 2 / (22 * 21 * 20), len(ids))


def test_80_percent_become_mask_10_random_and_10_stay():
    rows = make_rows(20_000, 64, size=1000)
    out = mask(rows, tokenizer=make_tokenizer(1000))
    row, slot = np.nonzero(out["mask_weights"])
    new = out["token_ids"][row, out["mask_positions"][row, slot]]
    old = out["mask_ids"][row, slot]
    count = len(new)
    assert near((new == MASK).mean(), 0.8, count)
    # One random token in 995 equals the original.
    assert near((new == old).mean(), 0.1 + 0.1 / 995, count)
    drawn = new[(new != MASK) & (new != old)]
    assert drawn.min() == 5 and drawn.max() == 999
    quarters = np.bincount((drawn - 5) * 4 // 995, minlength=4) / len(drawn)
    assert all(near(quarter, 0.25, len(drawn)) for quarter in quarters)


def test_specials_in_the_text_are_never_chosen():
    ids, tokens = make_rows(2000, 32)
    ids = np.where(np.random.default_rng(1).random(ids.shape) < 0.7, UNK, ids).astype(np.int32)
    out = mask((ids, tokens))
    used = out["mask_weights"] > 0
    assert (out["mask_ids"][used] >= 5).all()
    available = (ids >= 5) & (np.arange(32) < tokens[:, None])
    expected = np.minimum(np.maximum(np.rint(0.15 * tokens), 1), available.sum(axis=1))
    np.testing.assert_array_equal(used.sum(axis=1), expected)
    assert expected.min() == 0


def words_of(row, tokens, tokenizer):
    """The columns of each word of a row, by reading it from the left."""
    words = []
    for column in range(tokens):
        joins = tokenizer.continuation[row[column]] and words and words[-1][-1] == column - 1
        if row[column] < 5:
            continue
        if joins:
            words[-1].append(column)
        else:
            words.append([column])
    return words


@pytest.mark.parametrize(("length", "slots"), [(5, 3), (48, 20), (64, 4)])
def test_whole_words_are_masked_wholly_or_not_at_all_and_fill_the_budget(length, slots):
    tokenizer = make_tokenizer(whole_from=30)
    rows = make_rows(1500, length)
    out = mask(rows, tokenizer=tokenizer, max_predictions=slots, whole_words=True)
    longest = 0
    for row, tokens, positions, weights in zip(
        *rows, out["mask_positions"], out["mask_weights"], strict=True
    ):
        chosen = set(positions[weights > 0].tolist())
        budget = min(slots, max(1, round(0.15 * tokens)))
        assert len(chosen) <= budget
        for word in words_of(row, tokens, tokenizer):
            inside = chosen & set(word)
            assert len(inside) in (0, len(word))
            # A word that was passed over did not fit when its turn came, nor does it now.
            assert inside or len(word) > budget - len(chosen)
            longest = max(longest, len(inside))
    assert longest > 1 or length == 5


def test_words_of_one_size_are_chosen_uniformly():
    tokenizer = make_tokenizer(whole_from=30)
    row = np.array([CLS, 5, 31, 6, 32, 7, 33, SEP, 34, 8, 35, 9, 36, SEP], np.int32)
    ids = np.tile(row, (20_000, 1))
    count = np.full(20_000, 14)
    out = mask((ids, count), tokenizer=tokenizer, whole_words=True)
    chosen = np.bincount(out["mask_positions"][out["mask_weights"] > 0], minlength=14) / 20_000
    # Two of 14: one pair, or the lone piece at 8 and nothing else beside it.
    np.testing.assert_array_equal(chosen[1:7:2], chosen[2:7:2])
    assert all(near(chosen[column], 1 / 6, 20_000) for column in (1, 3, 5, 8, 9, 11))


def spans_of(row, positions, weights, continuation):
    """Lengths in words of the runs of chosen tokens, and whether each is of whole words."""
    chosen = np.zeros(len(row), bool)
    chosen[positions[weights > 0]] = True
    lengths, whole = [], True
    words = np.cumsum(~continuation[row])
    places = np.flatnonzero(chosen)
    for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        if len(run):
            lengths.append(int(words[run[-1]] - words[run[0]] + 1))
    for word in np.unique(words[chosen]):
        inside = (words == word) & (row >= 5)
        # A word ends at a special.
        whole &= bool(chosen[inside].all())
    return lengths, whole


def test_spans_are_of_whole_words_of_geometric_length_inside_one_segment():
    tokenizer = make_tokenizer(size=60, whole_from=50)
    rows = make_rows(2000, 128, full=True)
    out = mask(rows, tokenizer=tokenizer, spans=True, max_predictions=20)
    counts = out["mask_weights"].sum(axis=1)
    assert (counts <= 19).all() and counts.mean() > 18.5
    lengths = []
    for row, positions, weights in zip(
        rows[0], out["mask_positions"], out["mask_weights"], strict=True
    ):
        used = positions[weights > 0]
        assert (row[used] >= 5).all() and (np.diff(used) > 0).all()
        found, whole = spans_of(row, positions, weights, tokenizer.continuation)
        assert whole
        lengths += found
    # Runs that touch add to the mean of 3.8, cut last ones take away.
    assert 3.0 < np.mean(lengths) < 4.2
    assert np.mean(np.array(lengths) == 1) < 0.35


def test_the_lengths_of_spans_are_those_of_spanbert():
    found = np.bincount(spanbert_lengths((np.arange(1_000_000) + 0.5) / 1_000_000), minlength=11)
    share = 0.2 * 0.8 ** np.arange(10)
    np.testing.assert_allclose(found[1:] / 1e6, share / share.sum(), atol=2e-6)
    assert len(found) == 11 and found[0] == 0
    assert found @ np.arange(11) / 1e6 == pytest.approx(3.797, abs=1e-3)  # the paper: 3.8


def test_the_lengths_of_spans_are_those_of_xlnet():
    found = np.bincount(xlnet_lengths((np.arange(1_000_000) + 0.5) / 1_000_000), minlength=6)
    np.testing.assert_allclose(found / 1e6, np.array([0, 60, 30, 20, 15, 12]) / 137, atol=2e-6)


def test_the_tokens_of_a_span_are_hidden_in_one_way():
    rows = make_rows(3000, 64, full=True)
    out = mask(rows, spans=True, max_predictions=3, fraction=0.05)
    used = out["mask_weights"] > 0
    hidden = np.take_along_axis(out["token_ids"], out["mask_positions"], 1)
    ways = np.where(hidden == MASK, 0, np.where(hidden == out["mask_ids"], 2, 1))
    neighbours = used[:, 1:] & (np.diff(out["mask_positions"], axis=1) == 1)
    same = ways[:, 1:][neighbours] == ways[:, :-1][neighbours]
    # But for two spans that touch, and a random token that is the old one.
    assert neighbours.sum() > 2000 and same.mean() > 0.9
    count = used.sum()
    for way, share in ((0, 0.8), (1, 0.1), (2, 0.1)):
        assert abs((ways[used] == way).mean() - share) < 8 * np.sqrt(share * (1 - share) / count)


def test_spans_of_a_row_do_not_depend_on_the_rows_made_with_it():
    rows = make_rows(50, 40)
    together = mask(rows, spans=True, first=7)
    for number in (0, 13, 49):
        alone = mask(
            (rows[0][number : number + 1], rows[1][number : number + 1]),
            spans=True,
            first=7 + number,
        )
        for name, value in alone.items():
            np.testing.assert_array_equal(value[0], together[name][number], err_msg=name)


def test_single_tokens_fill_what_no_word_fits():
    # Of 18 tokens 4 are predicted; the word at 1 has one, the other 12.
    tokenizer = make_tokenizer(whole_from=30)
    row = np.array([CLS, 5, SEP, 6, *range(31, 42), SEP, PAD, PAD, PAD], np.int32)
    ids, tokens = np.tile(row, (20_000, 1)), np.full(20_000, 18)
    options = {"tokenizer": tokenizer, "spans": True, "fraction": 4 / 18}
    out = mask((ids, tokens), fill=True, **options)
    assert (out["mask_weights"].sum(axis=1) == 4).all()
    chosen = np.bincount(out["mask_positions"][out["mask_weights"] > 0], minlength=19) / 20_000
    assert chosen[1] == 1 and chosen[3:15].sum() == pytest.approx(3)
    assert all(near(share, 1 / 4, 20_000) for share in chosen[3:15])
    alone = mask((ids[7:8], tokens[7:8]), first=7, fill=True, **options)
    for name, value in alone.items():
        np.testing.assert_array_equal(value[0], out[name][7], err_msg=name)
    assert (mask((ids, tokens), **options)["mask_weights"].sum(axis=1) == 1).all()


def test_with_filling_the_budget_is_met_while_there_are_tokens():
    tokenizer = make_tokenizer(whole_from=10)
    ids, tokens = make_rows(500, 40)
    ids = np.where(np.random.default_rng(1).random(ids.shape) < 0.5, UNK, ids).astype(np.int32)
    out = mask((ids, tokens), tokenizer=tokenizer, spans=True, fill=True, fraction=0.5)
    used = out["mask_weights"] > 0
    assert (out["mask_ids"][used] >= 5).all()
    available = ((ids >= 5) & (np.arange(40) < tokens[:, None])).sum(axis=1)
    expected = np.minimum(np.clip(np.rint(0.5 * tokens), 1, 20), available)
    np.testing.assert_array_equal(used.sum(axis=1), expected)


@pytest.mark.parametrize("option", ["spans", "whole_words"])
def test_the_word_before_a_special_is_chosen_like_others(option):
    tokenizer = make_tokenizer()
    tokenizer.continuation[SEP] = True  # as where only a blank begins a word
    ids, tokens = np.tile(np.array([CLS, 5, SEP, 6, SEP], np.int32), (4000, 1)), np.full(4000, 5)
    out = mask((ids, tokens), tokenizer=tokenizer, fraction=0.2, **{option: True})
    assert (out["mask_weights"].sum(axis=1) == 1).all()
    assert near((out["mask_positions"][:, 0] == 1).mean(), 0.5, 4000)
