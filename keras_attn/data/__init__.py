"""Documents, shards of token ids, examples and batches."""
