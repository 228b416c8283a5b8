"""The parts of the suite that other environments run."""

# What depends on Keras alone.
LIBRARY = ("tests/ops", "tests/layers", "tests/models", "tests/generation")
# One part may take so long, besides installing, on a slow machine.
MINUTES = 40
