"""Token ids in shards, made once."""
