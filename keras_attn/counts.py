"""Formatting of counts in messages."""


def counted(count, one, many=None):
    """Returns a count with a noun, such as `1 row` or `2,000 rows`.

    Args:
        count: Integer.
        one: Singular of the noun.
        many: Plural of the noun; defaults to `one` with an s.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
