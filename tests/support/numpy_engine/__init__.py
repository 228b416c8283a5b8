"""An engine of the tests."""
