"""Tables that cannot be read."""

import pytest

from keras_attn.data.sources.tables import read_table
from keras_attn.errors import UserError


def refused(match, source, **options):
    """Returns the one-line error message of a table, which must match."""
    with pytest.raises(UserError, match=match) as caught:
        read_table(source, **{"text": "text", **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)
