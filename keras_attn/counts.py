"""Counts in messages."""


def counted(count, one, many=None):
    """Returns a count and what is counted, such as `1 row` or `2,000 rows`.

    Args:
        count: A whole number.
        one: What follows it if it is 1.
        many: What follows other numbers; default `one` with an s.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
