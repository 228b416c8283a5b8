"""XLNet in the formats of other libraries."""
