"""How the tensors of other libraries make up our variables, bit by bit."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io.finite import check_weights
from keras_attn.ops.shared_memory import as_tensor, new_array

FLOATS = ("float32", "float16", "bfloat16")
# Elements moved at once: they stay in the cache.
_BLOCK = 1 << 17


@dataclasses.dataclass(frozen=True)
class Piece:
    """A tensor of another library: one of our variables, or a part of its last axis.

    Attributes:
        name: Theirs.
        shape: Theirs.
        transposed: Whether theirs has the axes the other way round.
        own_shape: Ours; theirs, or its transpose, if None.
        row: Of theirs this row alone is meant; None: all of it.
    """

    name: str
    shape: tuple
    transposed: bool = False
    own_shape: tuple | None = None
    row: int | None = None

    @property
    def own(self):
        """Shape of our part."""
        return self.own_shape or (self.shape[::-1] if self.transposed else self.shape)

    def fill(self, ours, theirs):
        """Copies their array into our part.

        Args:
            ours: Array of shape `own`.
            theirs: What gives blocks of their array when it is sliced.
        """
        if self.own_shape:
            whole = theirs[:] if self.row is None else theirs[self.row]
            turned = self.own[::-1] if self.transposed else self.own
            ours[...] = whole.reshape(turned).T if self.transposed else whole.reshape(turned)
            return
        for rows in _blocks(self.shape):
            if self.transposed:
                ours[:, rows] = theirs[rows].T
            else:
                ours[rows] = theirs[rows]

    def to_theirs(self, array):
        """Our array as theirs, or as its row."""
        shape = self.shape if self.row is None else self.shape[1:]
        if self.transposed:
            return _turned(array).reshape(shape)
        return np.ascontiguousarray(array).reshape(shape)


def _turned(array):
    """The transposed matrix in memory's order, by blocks: three times as fast as at once."""
    result = np.empty(array.shape[::-1], array.dtype)
    for row in range(0, len(array), 128):
        result[:, row : row + 128] = array[row : row + 128].T
    return result


class LazyArray:
    """An array that is read when it is needed, and not kept.

    Args:
        shape: Its shape.
        read: Function that returns it.
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
    """The tensors of a checkpoint: what its header says, and a way to read them.

    Attributes:
        source: What messages call the checkpoint.
        header: `{name: (shape, dtype)}`.
        read: Function from a name to its array, or to what gives blocks of it when it is sliced.
    """

    source: str
    header: dict
    read: Callable

    def take(self, layout, unused=()):
        """Our variables, each read when it is needed.

        Args:
            layout: `{our path: [Piece, …]}`.
            unused: Names that may be there besides.

        Returns:
            `{our path: LazyArray}`, float32.

        Raises:
            UserError: Names the first tensor that is missing, left over, misshapen or of a dtype
                that holds no weights. Nothing was read yet.
        """
        pieces = [piece for parts in layout.values() for piece in parts]
        names = {piece.name for piece in pieces}
        missing = sorted(names - self.header.keys())
        left = sorted(self.header.keys() - names - set(unused))
        if missing or left:
            raise UserError(
                "Every tensor of the model must be there, and no other. Received: "
                f"{self.source}, missing: {_few(missing)}; unknown: {_few(left)}"
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
                    f"{piece.name} must be one of {', '.join(FLOATS)}. "
                    f"Received: {dtype} in {self.source}"
                )
        return {
            path: LazyArray(own_shape(parts), self._reader(parts)) for path, parts in layout.items()
        }

    def equal(self, name, other):
        """Whether two tensors are the same, to the bit."""
        if self.header[name] != self.header[other]:
            return False
        one, two = self.read(name), self.read(other)
        return all(
            one[rows].tobytes() == two[rows].tobytes() for rows in _blocks(self.header[name][0])
        )

    def _reader(self, parts):
        def read():
            array, start = new_array(own_shape(parts)), 0
            for part in parts:
                own = array[..., start : start + part.own[-1]]
                part.fill(own, self.read(part.name))
                check_weights(own, part.name, self.source)
                start += part.own[-1]
            return array

        return read


def own_shape(parts):
    """Shape of our variable that these pieces make up."""
    return (*parts[0].own[:-1], sum(part.own[-1] for part in parts))


def split(layout, weights):
    """Yields (their name, array) of all pieces of our variables.

    Args:
        layout: `{our path: [Piece, …]}`.
        weights: `{our path: array}`.

    Raises:
        UserError: If the layout has no place for one of them, or one is missing.
    """
    missing, left = sorted(layout.keys() - weights.keys()), sorted(weights.keys() - layout.keys())
    if missing or left:
        raise UserError(
            "Every weight must have its place in the format. Received: "
            f"missing: {_few(missing)}; without a place: {_few(left)}"
        )
    rows = {}
    for path, parts in layout.items():
        array = np.asarray(weights[path])
        if array.shape != own_shape(parts):
            raise UserError(f"{path} must have shape {own_shape(parts)}. Received: {array.shape}")
        stops = np.cumsum([part.own[-1] for part in parts])[:-1]
        for part, own in zip(parts, np.split(array, stops, axis=-1), strict=True):
            if part.row is None:
                yield part.name, part.to_theirs(own)
            else:
                rows.setdefault(part.name, {})[part.row] = part.to_theirs(own)
    for name, arrays in rows.items():
        yield name, np.stack([arrays[number] for number in range(len(arrays))])


def _blocks(shape):
    """Slices of rows that stay in the cache."""
    rows = max(1, _BLOCK * shape[0] // max(1, math.prod(shape)))
    # No further than the last: not all that can be sliced allow it.
    return [slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]


def _few(names):
    shown = ", ".join(names[:3]) or "none"
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
