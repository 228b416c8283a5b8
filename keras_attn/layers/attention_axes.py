"""Attention over selected axes of inputs with several position axes."""

import math

from keras import ops

from keras_attn.layers.shapes import shape_text, sizes_differ


class AttentionAxes:
    """Reshapes inputs `(B, ..., D)` into sequences `(B', T, D)`, and results back.

    The attention axes are flattened into T, in the given order; the other axes are folded into the
    batch B'.

    Args:
        owner: Name of the layer, for error messages.
        rank: Number of axes of the inputs.
        axes: Attention axes, from 1 to `rank - 2`; defaults to all of these.

    Raises:
        ValueError: If the inputs do not have these axes.
    """

    def __init__(self, owner, rank, axes=None):
        inner = tuple(range(1, rank - 1))
        self.axes = inner if axes is None else tuple(a % rank for a in axes)
        if not self.axes or len(set(self.axes)) < len(self.axes) or set(self.axes) - set(inner):
            raise ValueError(
                f"{owner}: attention_axes must be among {inner}, between the batch "
                f"and the features of inputs with {rank} axes. "
                f"Received: attention_axes={axes}"
            )
        self.owner = owner
        self.rows = tuple(a for a in (0, *inner) if a not in self.axes)

    def fold(self, x):
        """Reshapes `(B, ..., D)` to `(B', T, D)`, and a mask `(B, ...)` to `(B', T)`."""
        if x is None or isinstance(x, bool):
            return x
        x = ops.convert_to_tensor(x)
        features = tuple(range(len(self.rows) + len(self.axes), len(x.shape)))
        x = ops.transpose(x, (*self.rows, *self.axes, *features))
        shape = ops.shape(x)
        inner = _product(shape[len(self.rows) : len(shape) - len(features)])
        return ops.reshape(
            x, (_product(shape[: len(self.rows)]), inner, *shape[len(shape) - len(features) :])
        )

    def require_equal_rows(self, **shapes):
        """Raises a ValueError if named shapes differ in an axis that is not an attention axis."""
        first, *others = [
            [shape[a] for a in self.rows] for shape in shapes.values() if shape is not None
        ]
        if any(any(map(sizes_differ, first, other)) for other in others):
            received = ", ".join(
                f"{name} of shape {shape_text(shape)}"
                for name, shape in shapes.items()
                if shape is not None
            )
            raise ValueError(
                f"{self.owner}: inputs must have equal sizes in all axes except "
                f"attention_axes={self.axes} and the features. Received: {received}"
            )

    def fold_shape(self, shape):
        """The shape of `fold(x)` for x of this shape; sizes may be None."""
        if shape is None:
            return None
        folded = ([shape[a] for a in axes] for axes in (self.rows, self.axes))
        return (*(None if None in sizes else math.prod(sizes) for sizes in folded), shape[-1])

    def fold_attention_mask(self, mask, query, value):
        """Reshapes a mask that broadcasts to `(B, ..., H, T..., S...)` to `(B', 1 or H, T, S)`."""
        if mask is None:
            return None
        mask, own = ops.convert_to_tensor(mask), 2 * len(self.axes)
        # Missing axes are those between the batch and the positions, as in Keras.
        missing = len(self.rows) + 1 + own - len(mask.shape)
        sizes = ops.shape(mask)
        if missing > 0:
            sizes = (*sizes[:1], *[1] * missing, *sizes[1:])
        outer = [ops.shape(query)[a] for a in self.rows]
        inner = [ops.shape(x)[a] for x in (query, value) for a in self.axes]
        mask = ops.broadcast_to(ops.reshape(mask, sizes), (*outer, sizes[len(self.rows)], *inner))
        middle = len(self.axes)
        return ops.reshape(
            mask,
            (
                _product(outer),
                sizes[len(self.rows)],
                _product(inner[:middle]),
                _product(inner[middle:]),
            ),
        )

    def unfold(self, x, query):
        """Reshapes `(B', T, E)` to `(B, ..., E)`, where B' and T become the axes of the query."""
        sizes = [ops.shape(query)[a] for a in (*self.rows, *self.axes)]
        x = ops.reshape(x, (*sizes, ops.shape(x)[-1]))
        order = (*self.rows, *self.axes, len(sizes))
        return ops.transpose(x, sorted(range(len(order)), key=order.__getitem__))

    def unfold_weights(self, weights, query, value):
        """Reshapes weights `(B', H, T, S)` to `(B, ..., H, T..., S...)`, the order of Keras."""
        outer = [ops.shape(query)[a] for a in self.rows]
        inner = [ops.shape(x)[a] for x in (query, value) for a in self.axes]
        return ops.reshape(weights, (*outer, ops.shape(weights)[1], *inner))


def _product(sizes):
    """Product of sizes, which may be integers, TensorFlow scalars or JAX symbols."""
    if not any(ops.is_tensor(size) for size in sizes):
        return math.prod(sizes)
    return ops.prod(ops.stack([ops.cast(size, "int32") for size in sizes]))
