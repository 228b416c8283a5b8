"""The recurrent encoder with attention pooling."""
