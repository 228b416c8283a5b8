"""One experiment a file; `get_config()` returns it. See --config of the commands."""
