"""Command lines: flags, config files, errors and exit codes."""
