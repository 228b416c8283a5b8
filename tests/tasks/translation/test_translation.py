"""Batches of sentence pairs by their number of tokens."""

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.tasks.translation.batches import STEP, TranslationBatches
from keras_attn.text.subwords import BEGIN_ID, END_ID, PAD_ID


def _pairs(count=100, seed=0):
    random = np.random.default_rng(seed)
    return [
        [random.integers(4, 50, size).astype("int32") for size in random.integers(0, 30, count)]
        for _ in range(2)
    ]


def _batches(**options):
    return TranslationBatches(*_pairs(), **{"batch_tokens": 120, **options})


def _whole(batches, index):
    return batches.batch(index, 0, batches.batch_size)


@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_pair_once_in_batches_of_few_tokens(multiple, epoch):
    batches = _batches(multiple=multiple)
    sources, targets = _pairs()
    seen = []
    for i in range(batches.num_batches):
        batch = _whole(batches, epoch * batches.num_batches + i)
        rows, width = batch["token_ids"].shape
        longest = max(width, batch["target_ids"].shape[1])
        numbers = batches.numbers(epoch * batches.num_batches + i)
        assert rows % multiple == 0 and longest % STEP == 0 and rows - len(numbers) < multiple
        assert len(numbers) * longest <= 120 or len(numbers) == 1
        seen += list(numbers)
        for row in range(rows):
            if row >= len(numbers):
                assert not any(batch[name][row].any() for name in ("sample_weight", "padding_mask"))
                continue
            source, target = sources[numbers[row]], targets[numbers[row]]
            own = batch["padding_mask"][row] > 0
            np.testing.assert_array_equal(batch["token_ids"][row][own], [*source, END_ID])
            real = batch["sample_weight"][row] > 0
            np.testing.assert_array_equal(batch["label"][row][real], [*target, END_ID])
            np.testing.assert_array_equal(batch["target_ids"][row][real], [BEGIN_ID, *target])
            assert (batch["label"][row][~real] == PAD_ID).all()
    assert sorted(seen) == list(range(100))


def test_batches_hold_the_same_pairs_whatever_their_multiple():
    one, other = _batches(), _batches(multiple=6)
    assert one.num_batches == other.num_batches
    assert one.mean_rows == other.mean_rows == 100 / one.num_batches
    for i in range(2 * one.num_batches):
        np.testing.assert_array_equal(one.numbers(i), other.numbers(i))


def test_few_shapes_hold_the_same_pairs():
    batches = _batches(few_shapes=True, multiple=2)
    shapes, weights = {}, 0
    for i in range(batches.num_batches):
        batch = _whole(batches, i)
        rows, width = batch["token_ids"].shape
        assert batch["target_ids"].shape == (rows, width) and rows % 2 == 0
        assert shapes.setdefault(width, rows) == rows
        weights += batch["sample_weight"].sum()
    assert set(shapes) <= {4, 8, 12, 16, 24, 32}
    longest = {max(map(len, pair)) + 1 for pair in zip(*_pairs(), strict=True)}
    assert set(shapes) == {
        min(size for size in (4, 8, 12, 16, 24, 32) if size >= length) for length in longest
    }
    assert weights == sum(len(target) + 1 for target in _pairs()[1])


def test_the_batches_of_replicas_add_up_to_the_global_batch():
    batches = _batches(multiple=4)
    for index in range(5):
        whole = _whole(batches, index)
        parts = [batches.batch(index, first, first + 1) for first in range(4)]
        for name, array in whole.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), array)


def test_epochs_differ_and_a_batch_is_a_function_of_seed_and_number():
    batches, again, other = _batches(), _batches(), _batches(seed=1)
    count = batches.num_batches
    assert batches.numbers(3).tolist() == again.numbers(3).tolist()
    epochs = [
        [tuple(sorted(source.numbers(epoch * count + i))) for i in range(count)]
        for source, epoch in ((batches, 0), (batches, 1), (other, 0))
    ]
    assert epochs[0] != epochs[1] and epochs[0] != epochs[2]
    again.numbers(count)
    assert batches.numbers(3).tolist() == again.numbers(3).tolist()
    plain = _batches(shuffle=False)
    widths = [
        max(_whole(plain, i)[name].shape[1] for name in ("token_ids", "target_ids"))
        for i in range(plain.num_batches)
    ]
    assert widths == sorted(widths)


def test_without_a_pair_there_is_no_batch():
    with pytest.raises(UserError, match="at least one sentence pair"):
        TranslationBatches([], [], batch_tokens=10)
