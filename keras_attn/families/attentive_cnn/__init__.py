"""The convolutional encoder with attention pooling."""
