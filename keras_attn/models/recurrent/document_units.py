"""Splitting of token sequences into sentences, and of sentences into longer units."""

import dataclasses

from keras import ops

from keras_attn.ops import kernels
from keras_attn.ops.time_loop import run_time_loop
from keras_attn.types import Tensor

_KERNELS = kernels.of_backend("tensorflow")


@dataclasses.dataclass(frozen=True)
class Units:
    """Consecutive elements of each row, grouped into units: the words of sentences, for example.

    Attributes:
        positions: Integers `(B, N, W)`, the index of each element in the flattened rows `(B T)`.
        mask: Boolean `(B, N, W)`, False where a unit has no further element.
        slots: Integers `(B, T)`, the index of each element in the flattened units `(B N W)`.
    """

    positions: Tensor
    mask: Tensor
    slots: Tensor

    def gather(self, x: Tensor) -> Tensor:
        """Elements by unit: `(B, T, ...)` -> `(B, N, W, ...)`, anything where the mask is False."""
        return _take(x, self.positions)

    def spread(self, x: Tensor) -> Tensor:
        """The inverse: `(B, N, W, ...)` -> `(B, T, ...)`, anything at padding."""
        batch, number, width, *depth = ops.shape(x)
        return _take(ops.reshape(x, (batch, number * width, *depth)), self.slots)

    def of_elements(self, x: Tensor) -> Tensor:
        """The value of the unit of each element: `(B, N)` -> `(B, T)`, anything at padding."""
        return _take(x, self.slots // ops.shape(self.mask)[-1])

    def last(self, x: Tensor) -> Tensor:
        """Whether a condition `(B, T)` is true for the last element of each unit, `(B, N)`."""
        return ops.any(ops.logical_and(self.gather(x), self._is_last()), axis=-1)

    def _is_last(self):
        following = ops.pad(self.mask[..., 1:], [(0, 0), (0, 0), (0, 1)])
        return ops.logical_and(self.mask, ops.logical_not(following))


def split_units(
    real: Tensor, ends: Tensor, least: int, most: int, continued: Tensor | None = None
) -> Units:
    """Groups the elements of each row into units.

    A unit ends before an element if it already has `most` elements, or if it has at least `least`
    and the element before is an end. Only the last unit of a row may have fewer than `least`, so
    that no element is lost in `ceil(T / least)` units of `most` places.

    Args:
        real: Boolean `(B, T)`, False for padding, at any position; B and T are at least 1.
        ends: Boolean `(B, T)`, True for elements after which a unit may end.
        least: Minimum number of elements of a unit.
        most: Maximum number of elements of a unit, at least `least`.
        continued: Boolean `(B, T)`, True for elements before which no unit ends except by `most`.

    Returns:
        `Units`.
    """
    batch, length = ops.shape(real)
    unit, place = _count(real, ends, least, most, continued)
    if _KERNELS is not None and _KERNELS.graphs.in_graph_without_xla():
        # XLA requires static sizes. Other graphs need only those of this batch.
        number, width = (ops.max(ops.where(real, x, 0)) + 1 for x in (unit, place))
    else:
        number = (length + least - 1) // least
        width = min(most, length) if isinstance(length, int) else most
    row = ops.expand_dims(ops.arange(batch, dtype="int32"), 1)
    slots = (row * number + unit) * width + place
    # Each place gets 1 + the index of its element; padding goes to one further place.
    size = batch * number * width
    elements = ops.arange(1, batch * length + 1, dtype="int32")
    found = ops.segment_sum(
        elements, ops.reshape(ops.where(real, slots, size), (-1,)), num_segments=size + 1
    )
    found = ops.reshape(found[:-1], (batch, number, width))
    return Units(ops.maximum(found - 1, 0), found > 0, ops.where(real, slots, 0))


def _count(real, ends, least, most, continued):
    """Returns the index of the unit of each element, and of the element in its unit."""
    continued = ops.zeros_like(ends) if continued is None else continued
    # (B, T, 3)
    sequence = ops.cast(ops.stack([real, ends, continued], axis=-1), "int32")
    start = ops.zeros_like(sequence[:, 0, 0])

    def step(x, states):
        unit, size, ended = states
        real, end, continued = (x[:, i] > 0 for i in range(3))
        enough = ops.logical_and(ended > 0, ops.logical_not(continued))
        split = ops.logical_or(size >= most, ops.logical_and(enough, size >= least))
        split = ops.logical_and(split, real)
        unit = unit + ops.cast(split, "int32")
        size = ops.where(split, 1, size + ops.cast(real, "int32"))
        ended = ops.where(real, ops.cast(end, "int32"), ended)
        return (unit, size - 1), (unit, size, ended)

    return run_time_loop(step, sequence, (start, start, start))[0]


def _take(x, index):
    """Rows of `(B, T, ...)` at indices into the flattened rows `(B T, ...)`."""
    batch, length, *depth = ops.shape(x)
    flat = ops.reshape(x, (batch * length, *depth))
    return ops.reshape(
        ops.take(flat, ops.reshape(index, (-1,)), axis=0), (*ops.shape(index), *depth)
    )
