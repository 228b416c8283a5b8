"""Rejection of arguments that have no effect together with others."""


def reject_unused(use, **arguments):
    """Raises a ValueError for an argument that differs from its default but has no effect.

    Args:
        use: The setting that the argument requires, such as `'style="shaw"'`.
        **arguments: By name, the pair of the value and its default.
    """
    for name, (value, default) in arguments.items():
        if value is not default and value != default:
            raise ValueError(f"{name} is only supported with {use}. Received: {name}={value!r}")
