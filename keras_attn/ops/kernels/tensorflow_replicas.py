"""Sums over the replicas of a `tf.distribute` strategy."""

import tensorflow as tf


def count():
    """Number of replicas that compute in step with the calling one; 1 outside of a replica."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def summed(values):
    """Within a replica, the sum of each of the values over all replicas.

    With one replica the values themselves: TensorFlow keeps the graph around an `all_reduce` as
    long as the process.

    Args:
        values: Nested structure of tensors.
    """
    if count() == 1:
        return values
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)
