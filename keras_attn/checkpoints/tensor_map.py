"""Maps tensors of other libraries to our variables, bitwise identical."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from keras_attn.errors import UserError, listed
from keras_attn.io.finite import check_weights
from keras_attn.ops.shared_memory import as_tensor, new_array

FLOATS = ("float32", "float16", "bfloat16")
# Elements copied at once, which fit in the CPU cache.
_BLOCK = 1 << 17


@dataclasses.dataclass(frozen=True)
class ExternalTensor:
    """A tensor of another library that fills one of our variables or a slice of its last axis.

    Attributes:
        name: Their name.
        shape: Their shape.
        transposed: Whether their tensor is transposed.
        own_shape: Shape of the slice of our variable; None: their shape, transposed if
            `transposed`.
        row: Row of their tensor to use, with `own_shape`; None: the whole tensor.
        skip: Number of rows at the start of their tensor that our variable lacks. They are written
            as zeros.

    Raises:
        ValueError: If `row` is set without `own_shape`.
    """

    name: str
    shape: tuple
    transposed: bool = False
    own_shape: tuple | None = None
    row: int | None = None
    skip: int = 0

    def __post_init__(self):
        if self.row is not None and self.own_shape is None:
            raise ValueError(
                "ExternalTensor: row requires own_shape. "
                f"Received: row={self.row} of {self.name}, own_shape=None"
            )

    @property
    def own(self):
        """Shape of the slice of our variable."""
        if self.skip:
            return (self.shape[0] - self.skip, *self.shape[1:])
        return self.own_shape or (self.shape[::-1] if self.transposed else self.shape)

    def fill(self, ours, theirs):
        """Copies their array into the slice of our variable.

        Args:
            ours: Array of shape `own`.
            theirs: Their array, or an object that returns blocks of it when it is sliced.
        """
        if self.skip:
            ours[...] = theirs[self.skip :]
            return
        if self.own_shape:
            array = theirs[:] if self.row is None else theirs[self.row]
            if self.transposed:
                ours[...] = array.reshape(self.own[::-1]).T
            else:
                ours[...] = array.reshape(self.own)
            return
        for rows in _blocks(self.shape):
            if self.transposed:
                ours[:, rows] = theirs[rows].T
            else:
                ours[rows] = theirs[rows]

    def to_external(self, array):
        """Converts a slice of our variable to their tensor, or to a row of it."""
        if self.skip:
            return np.pad(array, [(self.skip, 0), *[(0, 0)] * (array.ndim - 1)])
        shape = self.shape if self.row is None else self.shape[1:]
        if self.transposed:
            return _transpose(array).reshape(shape)
        return np.ascontiguousarray(array).reshape(shape)


def _transpose(array):
    """Returns a contiguous transpose; copying by blocks is three times faster than at once."""
    result = np.empty(array.shape[::-1], array.dtype)
    for row in range(0, len(array), 128):
        result[:, row : row + 128] = array[row : row + 128].T
    return result


class LazyArray:
    """An array that is read each time it is used, and not stored.

    Args:
        shape: Shape of the array.
        read: Function that returns the array.
    """

    def __init__(self, shape, read):
        self.shape = tuple(shape)
        self._read = read

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._read(), dtype)

    def __tf_tensor__(self, dtype=None, name=None):
        return as_tensor(self._read(), dtype)


@dataclasses.dataclass(frozen=True)
class Tensors:
    """The tensors of a checkpoint.

    Attributes:
        source: Name of the checkpoint in messages.
        header: `{name: (shape, dtype)}`.
        read: Function from a name to its array, or to an object that returns blocks of it when it
            is sliced.
    """

    source: str
    header: dict
    read: Callable

    def take(self, layout, unused=()):
        """Returns our variables, each read when it is used.

        Args:
            layout: `{our path: [ExternalTensor, …]}`.
            unused: Names of other tensors that the checkpoint may contain.

        Returns:
            `{our path: LazyArray}`, float32.

        Raises:
            UserError: If a tensor is missing, unknown or misshapen, or has an unsupported dtype.
                Raised before any tensor is read.
        """
        pieces = [piece for slices in layout.values() for piece in slices]
        names = {piece.name for piece in pieces}
        missing = sorted(names - self.header.keys())
        left = sorted(self.header.keys() - names - set(unused))
        if missing or left:
            raise UserError(
                f"The tensors in {self.source} do not match the model. "
                f"Missing: {listed(missing)}; unknown: {listed(left)}"
            )
        for piece in pieces:
            shape, dtype = self.header[piece.name]
            if tuple(shape) != tuple(piece.shape):
                raise UserError(
                    f"{piece.name} must have shape {tuple(piece.shape)}. "
                    f"Received: {tuple(shape)} in {self.source}"
                )
            if dtype not in FLOATS:
                raise UserError(
                    f"The dtype of {piece.name} must be one of {', '.join(FLOATS)}. "
                    f"Received: {dtype} in {self.source}"
                )
        return {
            path: LazyArray(own_shape(pieces), self._reader(pieces))
            for path, pieces in layout.items()
        }

    def equal(self, name, other):
        """Returns whether two tensors are bitwise identical."""
        if self.header[name] != self.header[other]:
            return False
        one, two = self.read(name), self.read(other)
        return all(
            one[rows].tobytes() == two[rows].tobytes() for rows in _blocks(self.header[name][0])
        )

    def _reader(self, pieces):
        def read():
            array, start = new_array(own_shape(pieces)), 0
            for piece in pieces:
                own = array[..., start : start + piece.own[-1]]
                piece.fill(own, self.read(piece.name))
                check_weights(own, piece.name, self.source)
                start += piece.own[-1]
            return array

        return read


def own_shape(pieces):
    """Returns the shape of the variable that these pieces fill."""
    return (*pieces[0].own[:-1], sum(piece.own[-1] for piece in pieces))


def split(layout, weights):
    """Converts our variables to tensors of another library; yields (their name, array).

    Args:
        layout: `{our path: [ExternalTensor, …]}`.
        weights: `{our path: array}`.

    Raises:
        UserError: If the paths in `layout` and `weights` differ.
    """
    missing, left = sorted(layout.keys() - weights.keys()), sorted(weights.keys() - layout.keys())
    if missing or left:
        raise UserError(
            "The weights do not match the checkpoint format. "
            f"Missing: {listed(missing)}; not supported: {listed(left)}"
        )
    rows = {}
    for path, pieces in layout.items():
        array = np.asarray(weights[path])
        if array.shape != own_shape(pieces):
            raise UserError(f"{path} must have shape {own_shape(pieces)}. Received: {array.shape}")
        stops = np.cumsum([piece.own[-1] for piece in pieces])[:-1]
        for piece, own in zip(pieces, np.split(array, stops, axis=-1), strict=True):
            if piece.row is None:
                yield piece.name, piece.to_external(own)
            else:
                rows.setdefault(piece.name, {})[piece.row] = piece.to_external(own)
    for name, arrays in rows.items():
        yield name, np.stack([arrays[number] for number in range(len(arrays))])


def _blocks(shape):
    """Returns slices of rows that fit in the CPU cache."""
    rows = max(1, _BLOCK * shape[0] // max(1, math.prod(shape)))
    # Some objects do not support slices beyond the last row.
    return [slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]
