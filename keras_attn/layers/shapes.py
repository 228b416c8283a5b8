"""What layers ask of the shapes of their inputs."""


def require_axes(layer, axes, **shapes):
    """Raises a ValueError for a shape, by the name of its input, of another number of axes.

    Args:
        layer: Keras layer.
        axes: Such as `"(B, T, D)"`.
        **shapes: Tuples; None are left out.
    """
    for name, shape in shapes.items():
        if shape is not None and len(shape) != axes.count(",") + 1:
            raise ValueError(f"{type(layer).__name__} needs {name} {axes}. "
                             f"Received: {name} of shape {tuple(shape)}")


def require_sequences(layer, query_shape, value_shape=None, key_shape=None):
    """Raises a ValueError unless query, value and key are `(B, T, Q)`, `(B, S, V)`, `(B, S, K)`.

    A value or key of None is left out.
    """
    require_axes(layer, "(B, T, D)", query=query_shape)
    require_axes(layer, "(B, S, D)", value=value_shape, key=key_shape)
    if None in (value_shape, key_shape) or None in (value_shape[1], key_shape[1]):
        return
    if value_shape[1] != key_shape[1]:
        raise ValueError(f"{type(layer).__name__} needs one key for each value. Received: "
                         f"value of shape {tuple(value_shape)}, key of shape {tuple(key_shape)}")
