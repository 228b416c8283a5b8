"""The engine of TensorFlow: one step on one device, many devices and many workers."""
