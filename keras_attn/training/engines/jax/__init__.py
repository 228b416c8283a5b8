"""The engine on JAX."""
