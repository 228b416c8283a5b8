"""Distribution of global batches to the replicas of a `tf.distribute` strategy."""

import contextlib
import functools

import tensorflow as tf


class Feed:
    """Iterable of distributed batches that raises the original errors of the batches.

    TensorFlow makes batches in threads, and replaces errors there by an error class of its own.

    Args:
        dataset: `tf.data.Dataset`, or a distributed dataset.
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
        """Iterator that all calls of a training step share."""
        return iter(self.dataset)

    @contextlib.contextmanager
    def taking(self):
        """Context in which an error of the batches replaces the error of TensorFlow."""
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
        start: Number of the first global batch.
        stop: End of the batches; None: no end.
        accumulate: Number of micro-batches, which become a new leading axis of the rows of a
            replica; None: no such axis.
        prefetch: Number of batches to prefetch per replica.

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
        # There is nothing to tune, and the thread of the tuner may delay the end by a minute.
        options = tf.data.Options()
        options.autotune.enabled = False
        return rows.prefetch(prefetch * local).with_options(options)

    if isinstance(strategy, tf.distribute.OneDeviceStrategy):
        # Not distributed by the strategy, whose iterators use autotuning.
        return Feed(dataset(tf.distribute.InputContext()), errors)
    return Feed(strategy.distribute_datasets_from_function(dataset), errors)


def _static(array, leading, accumulate, share, batches):
    count = share // (accumulate or 1) if batches.one_count else None
    rows = (count,) if leading == 1 else (accumulate, count)
    inner = array.shape[1:] if batches.one_length else (None,) * (array.ndim - 1)
    return rows + tuple(inner)
