"""Shards of token ids, prepared once per corpus."""
