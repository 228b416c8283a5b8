"""Validation of the types and shapes of the inputs of layers and models."""

# Axes of query, value and key if all are sequences.
SEQUENCES = {"query": "BTQ", "value": "BSV", "key": "BSK"}


def require_dense(owner, name, x):
    """Raises a ValueError for a ragged or sparse tensor.

    Args:
        owner: Name of the layer or model.
        name: Name of the argument.
        x: Any object.
    """
    name_of_type = type(x).__name__
    converters = {"RaggedTensor": "to_tensor()", "SparseTensor": "tf.sparse.to_dense"}
    if convert := converters.get(name_of_type):
        raise ValueError(
            f"{owner}: {name} must be a dense tensor. Convert it with {convert}, and pass a mask "
            f"that is False for padding. Received: {name} of type {name_of_type}"
        )


def require_tensor(owner, name, x):
    """Raises a ValueError unless x is a dense tensor or array, or a list of these.

    Args:
        owner: As in `require_dense`.
        name: As in `require_dense`.
        x: As in `require_dense`.
    """
    require_dense(owner, name, x)
    if not hasattr(_first(x), "shape"):
        raise ValueError(
            f"{owner}: {name} must be a tensor or an array. Convert it with "
            f"numpy.array({name}). Received: {name} of type {type(x).__name__}"
        )


def require_axes(owner, axes, shapes, same_batch=()):
    """Raises a ValueError for a shape with other axes than declared, or with conflicting sizes.

    Unknown sizes (None, or JAX symbols) match any size.

    Args:
        owner: Name of the layer or model.
        axes: `{name: axes}`, with a letter per axis, such as `"BTD"`; `"B..."` allows any axes
            after the batch. Inputs that share a letter must have the same size along that axis,
            except that a batch `B` of 1 broadcasts.
        shapes: `{name: shape}` of any of these; None is ignored.
        same_batch: Names of inputs whose batch axis does not broadcast.
    """
    sizes, sources = {}, {}
    for name, letters in axes.items():
        shape = shapes.get(name)
        if shape is None:
            continue
        letters, rest = letters.removesuffix("..."), letters.endswith("...")
        others = {
            sources[letter]
            for letter, size in zip(letters, shape, strict=False)
            if sizes_differ(size, sizes.get(letter))
            and not (
                letter == "B"
                and 1 in (size, sizes[letter])
                and (name if size == 1 else sources[letter]) not in same_batch
            )
        }
        if others or len(shape) < len(letters) or (len(shape) > len(letters) and not rest):
            expected = ", ".join([*(str(sizes.get(a, a)) for a in letters), *["..."] * rest])
            received = (f"{n} of shape {shape_text(shapes[n])}" for n in (name, *sorted(others)))
            raise ValueError(
                f"{owner}: {name} must be of shape ({expected}). Received: {', '.join(received)}"
            )
        for letter, size in zip(letters, shape, strict=False):
            if isinstance(size, int) and sizes.get(letter, 1) == 1:
                sizes[letter], sources[letter] = size, name


def require_sequences(layer, query_shape, value_shape=None, key_shape=None):
    """Raises a ValueError unless query, value and key are `(B, T, Q)`, `(B, S, V)`, `(B, S, K)`.

    Shapes that are None are not checked.
    """
    require_axes(
        type(layer).__name__,
        SEQUENCES,
        {"query": query_shape, "value": value_shape, "key": key_shape},
    )


def require_position_ids(layer, inputs, position_ids):
    """Raises a ValueError unless `position_ids` are `(B, T)` or `(T,)` for inputs `(B, T, D)`."""
    shape = shape_of(position_ids)
    if shape is not None:
        require_axes(
            type(layer).__name__,
            {"inputs": "BTD", "position_ids": "T" if len(shape) == 1 else "BT"},
            {"inputs": shape_of(inputs), "position_ids": shape},
        )


def shape_of(x):
    """Shape of a tensor, or of the first tensor in a list; None if missing or unknown."""
    shape = getattr(_first(x), "shape", None)
    # In TensorFlow even the rank of a shape may be unknown.
    return None if shape is None or getattr(shape, "rank", 0) is None else tuple(shape)


def shape_text(shape):
    """Formats a shape for an error message: `(2, ?)` for `(2, None)`."""
    return str(tuple(shape)).replace("None", "?")


def _first(x):
    while isinstance(x, (list, tuple)) and len(x):
        x = x[0]
    return x


def sizes_differ(size, other):
    """Whether two sizes are both known and different."""
    return isinstance(size, int) and isinstance(other, int) and size != other
