"""Arguments that have no use beside the others."""


def reject_unused(use, **arguments):
    """Raises a ValueError for an argument that is not its default where it has no use.

    Args:
        use: What it goes with, such as `'style="shaw"'`.
        **arguments: By name its value and its default.
    """
    for name, (value, default) in arguments.items():
        if value is not default and value != default:
            raise ValueError(f"{name} goes with {use} alone. Received: {name}={value!r}")
