"""How a row of one text, or of two, is laid out for a classifier."""

from typing import NamedTuple


class RowLayout(NamedTuple):
    """Ids of the marks around the texts of a row.

    Attributes:
        before, between, after: Tuples of ids: before the first text, between it and the second if
            there is one, and after the last.
        pad_id: What fills rows up.
        last_segment: Segment of the last mark, where that is another than its text's.
    """

    before: tuple
    between: tuple
    after: tuple
    pad_id: int
    last_segment: int | None = None

    def count(self, paired):
        """How many marks a row has."""
        return len(self.before) + len(self.between) * bool(paired) + len(self.after)
