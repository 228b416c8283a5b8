"""Special tokens around one text, or a text pair, in the input row of a classifier."""

from typing import NamedTuple


class RowLayout(NamedTuple):
    """Ids of the special tokens of a row.

    Attributes:
        before: Tuple of ids before the first text.
        between: Tuple of ids between the texts of a pair.
        after: Tuple of ids after the last text.
        pad_id: Id of the padding token.
        last_segment: Segment id of the last token, if it differs from that of its text.
    """

    before: tuple
    between: tuple
    after: tuple
    pad_id: int
    last_segment: int | None = None

    def count(self, paired):
        """Returns the number of special tokens in a row."""
        return len(self.before) + len(self.between) * bool(paired) + len(self.after)
