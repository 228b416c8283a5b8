"""Global batches on their way to the replicas of a `tf.distribute` strategy."""

import contextlib
import functools

import tensorflow as tf


class Feed:
    """Iterable of distributed batches that raises its own errors.

    TensorFlow makes batches in threads of its own, and one of its own kinds of any error there.

    Args:
        dataset: `tf.data.Dataset`, or a distributed one.
        errors: List to which the function that makes the batches appends an error before it
            raises it.
    """

    def __init__(self, dataset, errors=()):
        self.dataset = dataset
        self._errors = errors

    def __iter__(self):
        return iter(self.dataset)

    @functools.cached_property
    def iterator(self):
        """The one iterator of all calls of a training step."""
        return iter(self.dataset)

    @contextlib.contextmanager
    def taking(self):
        """Raises the error of the batches in place of TensorFlow's while they are taken."""
        try:
            yield
        except tf.errors.OpError as error:
            if not self._errors:
                raise
            raise self._errors[0] from error


def distributed_batches(batches, strategy, *, start, stop=None, accumulate=None, prefetch=2):
    """Feeds global batches [start, stop) to the replicas of a strategy.

    Args:
        batches: `StreamBatches` or `TableBatches`.
        strategy: `tf.distribute` strategy.
        start: First global batch.
        stop: End of the batches, or None for no end.
        accumulate: Splits a replica's rows into that many micro-batches in a
            new leading axis; None leaves them as they are.
        prefetch: Batches made ahead.

    Returns:
        A `Feed` of dicts.
    """
    errors = []

    def dataset(context):
        local = context.num_replicas_in_sync // context.num_input_pipelines
        share = batches.batch_size // context.num_replicas_in_sync

        def shares():
            index = start
            while stop is None or index < stop:
                for replica in range(local):
                    first = (context.input_pipeline_id * local + replica) * share
                    try:
                        rows = batches.batch(index, first, first + share)
                    except Exception as error:
                        errors.append(error)
                        raise
                    yield (
                        rows
                        if accumulate is None
                        else {
                            name: array.reshape(accumulate, -1, *array.shape[1:])
                            for name, array in rows.items()
                        }
                    )
                index += 1

        leading = 1 if accumulate is None else 2
        signature = {
            name: tf.TensorSpec(_static(array, leading, accumulate, share, batches), array.dtype)
            for name, array in batches.batch(start, 0, 1).items()
        }
        rows = tf.data.Dataset.from_generator(shares, output_signature=signature)
        # There is nothing to tune, and at the end one may wait a minute for the tuner's sleep.
        options = tf.data.Options()
        options.autotune.enabled = False
        return rows.prefetch(prefetch * local).with_options(options)

    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        # Not through the strategy, whose own iterators have such a tuner.
        return Feed(dataset(tf.distribute.InputContext()), errors)
    return Feed(strategy.distribute_datasets_from_function(dataset), errors)


def _static(array, leading, accumulate, share, batches):
    count = share // (accumulate or 1) if batches.one_count else None
    rows = (count,) if leading == 1 else (accumulate, count)
    inner = array.shape[1:] if batches.one_length else (None,) * (array.ndim - 1)
    return rows + tuple(inner)
