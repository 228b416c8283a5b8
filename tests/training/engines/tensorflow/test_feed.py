"""The rows of the replicas partition the global batch; evaluation reads every row once."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.batches import StreamBatches, TableBatches
from keras_attn.errors import UserError
from keras_attn.training.engines.tensorflow.feed import distributed_batches
from keras_attn.training.engines.tensorflow.strategies import make_strategy


class Numbers:
    """Stream with the number n as row n."""

    def __init__(self, num_examples=10):
        self.num_examples = num_examples

    def rows(self, start, stop):
        numbers = np.arange(start, stop, dtype=np.int32)
        return {"number": numbers, "grid": np.tile(numbers[:, None], (1, 3))}


class Tables:
    """Batches of different lengths."""

    batch_size, num_examples, num_batches = 4, 8, 2
    buckets = (1, 2)

    def batch(self, index):
        first = 4 * index
        return {"grid": np.tile(np.arange(first, first + 4)[:, None], (1, index + 1))}


def _strategy(replicas):
    return make_strategy("one_device" if replicas == 1 else "mirrored")


def _by_replica(strategy, batch, name):
    return [x.numpy() for x in strategy.experimental_local_results(batch[name])]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_replicas_and_micro_batches_partition_the_global_batch(replicas, accumulate):
    strategy = _strategy(replicas)
    feed = iter(
        distributed_batches(StreamBatches(Numbers(), 8), strategy, start=3, accumulate=accumulate)
    )
    for index in (3, 4, 5):
        parts = _by_replica(strategy, next(feed), "number")
        assert [part.shape for part in parts] == [(accumulate, 8 // replicas // accumulate)] * (
            replicas
        )
        rows = np.concatenate([part.reshape(-1) for part in parts])
        np.testing.assert_array_equal(rows, np.arange(8 * index, 8 * index + 8))


def test_tables_of_one_length_have_static_shapes():
    one, strategy = Tables(), _strategy(1)
    for buckets, width in (((1, 2), None), ((2,), 2)):
        one.buckets, one.batch = buckets, lambda index: {"grid": np.zeros((4, 2), np.int32)}
        feed = distributed_batches(TableBatches(one), strategy, start=0, accumulate=2)
        assert feed.dataset.element_spec["grid"].shape.as_list() == [2, 2, width]


@pytest.mark.parametrize("replicas", [1, 2])
def test_table_batches_have_their_own_lengths(replicas):
    strategy = _strategy(replicas)
    feed = distributed_batches(TableBatches(Tables()), strategy, start=0, stop=2)
    batches = [np.concatenate(_by_replica(strategy, batch, "grid")) for batch in feed]
    assert [batch.shape for batch in batches] == [(4, 1), (4, 2)]
    np.testing.assert_array_equal(batches[1][:, 0], [4, 5, 6, 7])


class Damaged(Numbers):
    """Stream whose row 17 cannot be read."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def rows(self, start, stop):
        if stop > 17:
            raise self.error
        return super().rows(start, stop)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("error", [UserError("A file is needed."), MemoryError()], ids=repr)
def test_an_error_of_the_source_is_raised_where_its_batch_is_used(replicas, compiled, error):
    strategy = _strategy(replicas)
    feed = distributed_batches(StreamBatches(Damaged(error), 8), strategy, start=0)
    batches = iter(feed)
    take = tf.function(lambda: next(batches)) if compiled else lambda: next(batches)
    for index in (0, 1):
        with feed.taking():
            rows = np.concatenate(_by_replica(strategy, take(), "number"))
        np.testing.assert_array_equal(rows, np.arange(8 * index, 8 * index + 8))
    with pytest.raises(type(error)) as raised, feed.taking():
        take()
    assert raised.value is error


def test_other_errors_of_tensorflow_are_not_replaced():
    feed = distributed_batches(StreamBatches(Numbers(), 8), _strategy(1), start=0)
    with pytest.raises(tf.errors.InvalidArgumentError), feed.taking():
        tf.debugging.assert_equal(next(iter(feed))["number"], 0)


@pytest.mark.parametrize(("examples", "size"), [(10, 4), (3, 8), (8, 8), (1, 1), (9, 8)])
def test_evaluation_counts_each_row_once(examples, size):
    batches = StreamBatches(Numbers(examples), size, once=True)
    parts = [batches.batch(index, 0, size) for index in range(batches.num_batches)]
    numbers = np.concatenate([part["number"] for part in parts])
    weights = np.concatenate([part["sample_weight"] for part in parts])
    np.testing.assert_array_equal(numbers[weights == 1], np.arange(examples))
    assert len(numbers) == size * -(-examples // size)


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 99])
def test_a_limited_evaluation_is_spread_over_all_rows_without_repetition(limit):
    batches = StreamBatches(Numbers(10), 4, once=True, limit=limit)
    parts = [batches.batch(index, 0, 4) for index in range(batches.num_batches)]
    weights = np.concatenate([part["sample_weight"] for part in parts])
    numbers = np.concatenate([part["number"] for part in parts])[weights == 1]
    assert len(numbers) == len(set(numbers)) == min(limit, 10)
    assert numbers[-1] >= 10 - -(-10 // limit)


def test_autotuning_is_disabled():
    # RootDataset::Iterator waits for the autotuning thread, which may sleep for a minute.
    feed = distributed_batches(
        StreamBatches(Numbers(8), 4), tf.distribute.OneDeviceStrategy("/cpu:0"), start=0
    )
    assert isinstance(feed.dataset, tf.data.Dataset)
    assert feed.dataset.options().autotune.enabled is False
