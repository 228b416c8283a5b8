"""Suppression of messages of TensorFlow that are irrelevant for users."""

import importlib
import os
import sys
import tempfile


def import_quietly():
    """Imports TensorFlow without its messages about CPU and GPU, which no setting disables."""
    # At level 2, each process prints that oneDNN has no transpose of integers. Failures are raised.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            tensorflow = importlib.import_module("tensorflow")
            tensorflow.config.list_physical_devices()
            # Suppresses warnings about retracing, which mistake several runs for one function.
            tensorflow.get_logger().setLevel("ERROR")
        except BaseException:
            messages.seek(0)
            os.write(stderr, messages.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
