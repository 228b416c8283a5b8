"""Checks of the types and shapes of what layers and models are called with."""

# Axes of query, value and key where all are sequences.
SEQUENCES = {"query": "BTQ", "value": "BSV", "key": "BSK"}


def require_dense(owner, name, x):
    """Raises a ValueError for a ragged or sparse tensor.

    Args:
        owner: Name of the layer or model.
        name: Name of the argument.
        x: Anything.
    """
    name_of_type = type(x).__name__
    converters = {"RaggedTensor": "to_tensor()", "SparseTensor": "tf.sparse.to_dense"}
    if convert := converters.get(name_of_type):
        raise ValueError(
            f"{owner}: {name} must be a dense tensor. Convert it with {convert}, and pass a mask "
            f"that is False at the padding. Received: {name} of type {name_of_type}")


def require_tensor(owner, name, x):
    """Raises a ValueError for what is not a dense tensor or array, or a list of these.

    Args:
        owner, name, x: As in `require_dense`.
    """
    require_dense(owner, name, x)
    if not hasattr(_first(x), "shape"):
        raise ValueError(f"{owner}: {name} must be a tensor or an array. Convert it with "
                         f"numpy.array({name}). Received: {name} of type {type(x).__name__}")


def require_axes(owner, axes, shapes, same_batch=()):
    """Raises a ValueError for a shape without the declared axes, or of another size along one.

    Sizes that are unknown (None, or symbols of JAX) fit any other.

    Args:
        owner: Name of the layer or model.
        axes: `{name: axes}`, a letter for each axis, such as `"BTD"`; `"B..."` for any axes after
            the batch. Inputs that share a letter must have the same size along that axis, except
            that a batch `B` of 1 broadcasts.
        shapes: `{name: shape}` of some of them; None is ignored.
        same_batch: Names of inputs whose batch does not broadcast.
    """
    sizes, sources = {}, {}
    for name, letters in axes.items():
        shape = shapes.get(name)
        if shape is None:
            continue
        letters, rest = letters.removesuffix("..."), letters.endswith("...")
        others = {sources[letter] for letter, size in zip(letters, shape, strict=False)
                  if sizes_differ(size, sizes.get(letter)) and not (
                      letter == "B" and 1 in (size, sizes[letter])
                      and (name if size == 1 else sources[letter]) not in same_batch)}
        if others or len(shape) < len(letters) or (len(shape) > len(letters) and not rest):
            expected = ", ".join([*(str(sizes.get(a, a)) for a in letters), *["..."] * rest])
            received = (f"{n} of shape {shape_text(shapes[n])}" for n in (name, *sorted(others)))
            raise ValueError(f"{owner}: {name} must be of shape ({expected}). "
                             f"Received: {', '.join(received)}")
        for letter, size in zip(letters, shape, strict=False):
            if isinstance(size, int) and sizes.get(letter, 1) == 1:
                sizes[letter], sources[letter] = size, name


def require_sequences(layer, query_shape, value_shape=None, key_shape=None):
    """Raises a ValueError unless query, value and key are `(B, T, Q)`, `(B, S, V)`, `(B, S, K)`.

    A value or key of None is left out.
    """
    require_axes(type(layer).__name__, SEQUENCES,
                 {"query": query_shape, "value": value_shape, "key": key_shape})


def require_position_ids(layer, inputs, position_ids):
    """Raises a ValueError unless `position_ids` are `(B, T)` or `(T,)` for inputs `(B, T, D)`."""
    shape = shape_of(position_ids)
    if shape is not None:
        require_axes(type(layer).__name__,
                     {"inputs": "BTD", "position_ids": "T" if len(shape) == 1 else "BT"},
                     {"inputs": shape_of(inputs), "position_ids": shape})


def shape_of(x):
    """Shape of a tensor, or of the first tensor of a list; None if it has none or it is unknown."""
    shape = getattr(_first(x), "shape", None)
    # TensorFlow has shapes of which not even the number of axes is known.
    return None if shape is None or getattr(shape, "rank", 0) is None else tuple(shape)


def shape_text(shape):
    """A shape in an error: `(2, ?)` for `(2, None)`."""
    return str(tuple(shape)).replace("None", "?")


def _first(x):
    while isinstance(x, (list, tuple)) and len(x):
        x = x[0]
    return x


def sizes_differ(size, other):
    """Whether two sizes are known and not equal."""
    return isinstance(size, int) and isinstance(other, int) and size != other
