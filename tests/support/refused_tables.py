"""Tables that cannot be read."""

import pytest

from keras_attn.data.sources.tables import read_table
from keras_attn.errors import UserError


def refused(match, source, **options):
    """The message, of one line, with which a table is refused, checked to match."""
    with pytest.raises(UserError, match=match) as caught:
        read_table(source, **{"text": "text", **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)
