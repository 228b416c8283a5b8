"""Orthogonal matrices next to others, by products of matrices alone."""

import math

from keras import ops

# The coefficients of Jordan et al., with which small singular values grow fast.
_QUINTIC, _STEPS = (3.4445, -4.7750, 2.0315), 5


def orthogonal_updates(matrices, dtype):
    """Returns `0.2 sqrt(max(n, m)) U V^T` of matrices `U S V^T` of shape (n, m), in a list.

    One product for all matrices of a shape takes less time than one for each.
    """
    groups, found = {}, [None] * len(matrices)
    for number, x in enumerate(matrices):
        groups.setdefault(tuple(sorted(x.shape)), []).append(number)
    for (rows, columns), members in groups.items():
        # The products of a matrix with itself are smaller if it is wide.
        tall = [matrices[number].shape[0] > rows for number in members]
        stacked = ops.stack(
            [
                ops.transpose(matrices[number]) if turned else matrices[number]
                for number, turned in zip(members, tall, strict=True)
            ]
        )
        scaled = 0.2 * math.sqrt(columns) * newton_schulz(stacked, dtype)
        parts = ops.unstack(scaled, num=len(members), axis=0)
        for number, turned, x in zip(members, tall, parts, strict=True):
            found[number] = ops.transpose(x) if turned else x
    return found


def newton_schulz(x, dtype="float32"):
    """Moves the singular values of matrices toward 1.

    `X <- a X + b (X X^T) X + c (X X^T)^2 X`, five times, from X of Frobenius norm 1.

    Args:
        x: `(N, n, m)`, with n <= m for the smallest products.
        dtype: Dtype of the products.

    Returns:
        A tensor with the shape and dtype of x, whose singular values lie between 0.68 and 1.21
        unless they were below 0.3 % of the norm. A matrix of zeros stays one.
    """
    a, b, c = _QUINTIC
    norms = ops.sqrt(ops.sum(ops.square(x), axis=(1, 2), keepdims=True))
    y = ops.cast(x / (norms + 1e-7), dtype)
    for _ in range(_STEPS):
        square = ops.matmul(y, ops.transpose(y, (0, 2, 1)))
        y = a * y + ops.matmul(b * square + c * ops.matmul(square, square), y)
    return ops.cast(y, x.dtype)
