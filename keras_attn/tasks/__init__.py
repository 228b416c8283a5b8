"""What models are trained for: a folder for each task."""
