"""What scores ask of the shapes of query and key."""


def require_one_depth(layer, query_shape, key_shape):
    """Raises a ValueError if the depths of query and key differ."""
    if query_shape[-1] != key_shape[-1]:
        raise ValueError(
            f"{type(layer).__name__} needs query and key of one depth. "
            f"Received: query_shape={query_shape}, key_shape={key_shape}"
        )
