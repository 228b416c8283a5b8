"""GPT-2 in the formats of other libraries."""
