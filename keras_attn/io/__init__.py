"""Files: reading, atomic writes, locks."""
