"""TensorFlow's own messages, which mean nothing to users, kept off the terminal."""

import importlib
import os
import sys
import tempfile


def import_quietly():
    """Imports TensorFlow without its notes on CPU and GPU, which no setting turns off."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            tensorflow = importlib.import_module("tensorflow")
            tensorflow.config.list_physical_devices()
            # It takes several runs in one process for one function that is traced again.
            tensorflow.get_logger().setLevel("ERROR")
        except BaseException:
            notes.seek(0)
            os.write(kept, notes.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
