"""Import of TensorFlow and Keras in the commands: without irrelevant messages, and fast."""

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile


def has_tensorflow():
    """Returns whether TensorFlow is installed. Not all runs on JAX require it."""
    found = importlib.util.find_spec("tensorflow")
    return found is not None and found.origin is not None  # not a folder of this name


def hide_gpus():
    """Prevents TensorFlow from reserving the memory of GPUs that another backend uses.

    Raises:
        RuntimeError: If TensorFlow has already used a GPU.
    """
    if has_tensorflow():
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")


def import_tensorflow():
    """Imports Keras and, if it is installed, TensorFlow.

    TensorFlow's messages about CPU and GPU, which no setting disables, are suppressed. Keras does
    not find scikit-learn and Matplotlib, whose import for wrappers and galleries, which commands do
    not use, would take a third of the time.
    """
    # At level 2, each process prints that oneDNN has no transpose of integers. Failures are raised.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            with _hidden("sklearn", "matplotlib"):
                if has_tensorflow():
                    tensorflow = importlib.import_module("tensorflow")
                    tensorflow.config.list_physical_devices()
                    # Suppresses warnings about retracing, which mistake several runs for one
                    # function.
                    tensorflow.get_logger().setLevel("ERROR")
                keras = importlib.import_module("keras")
                if keras.backend.backend() != "tensorflow":
                    hide_gpus()
        except BaseException:
            messages.seek(0)
            os.write(stderr, messages.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def _hidden(*names):
    """Makes the import of modules fail, unless they are imported already."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
