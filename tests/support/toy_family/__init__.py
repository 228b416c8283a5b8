"""A family of models that lives in the tests: the words of a row, mixed with their mean."""
