"""A task defined in the tests: counting the word "good" in a text."""
