"""A task that lives in the tests: how often the word "good" is in a text."""
