"""Position embeddings and relative position biases."""
