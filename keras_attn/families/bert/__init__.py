"""BERT in the formats of other libraries."""
