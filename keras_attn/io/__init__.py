"""Files: read, written atomically, locked."""
