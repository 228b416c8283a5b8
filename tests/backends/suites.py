"""The parts of the suite that other environments run."""

# What depends on Keras alone.
LIBRARY = ("tests/ops", "tests/layers", "tests/models", "tests/generation")
# For one part, besides those for installing.
MINUTES = 25
