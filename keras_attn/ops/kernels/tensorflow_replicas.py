"""Sums over the replicas of a `tf.distribute` strategy."""

import tensorflow as tf


def count():
    """Number of replicas in sync with the calling one; 1 outside of a replica."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def summed(values):
    """Inside a replica, sums each value over all replicas.

    With one replica the values are returned unchanged, as TensorFlow never frees the graph around
    an `all_reduce`.

    Args:
        values: Nested structure of tensors.
    """
    if count() == 1:
        return values
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)
