"""The input pipeline: documents, shards of token ids, examples and batches."""
