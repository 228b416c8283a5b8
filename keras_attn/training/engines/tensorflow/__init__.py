"""The TensorFlow engine, for one device, several devices and several workers."""
