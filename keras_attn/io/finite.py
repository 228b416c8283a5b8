"""Checks that arrays are finite: without NaN and infinite values."""

import numpy as np

from keras_attn.errors import UserError


def check_weights(array, name, source):
    """Raises a `UserError` if an array of weights has values that are not finite.

    Args:
        array: NumPy array of any dtype.
        name, source: Names of the array and of its checkpoint for the message.
    """
    # Both are NaN if any value is NaN; unlike np.isfinite they use no memory.
    if (
        not np.issubdtype(array.dtype, np.floating)
        or not array.size
        or np.isfinite(array.min())
        and np.isfinite(array.max())
    ):
        return
    count = array.size - np.count_nonzero(np.isfinite(array))
    raise UserError(
        f"Cannot use {source}: {count:,} of the {array.size:,} values of {name} are "
        "NaN or infinite. Use another checkpoint"
    )


def check_outputs(array, source):
    """Raises a `UserError` if outputs of a model have values that are not finite.

    Args:
        array: NumPy array.
        source: Name of the model for the message, such as "the model in FOLDER".
    """
    if not np.isfinite(array).all():
        raise UserError(
            f"The outputs of {source} are NaN or infinite: its weights are damaged, or "
            "its training diverged. Use another checkpoint"
        )
