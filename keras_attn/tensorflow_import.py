"""Import of TensorFlow and Keras in the commands: without irrelevant messages, and fast."""

import contextlib
import importlib
import os
import sys
import tempfile


def import_tensorflow():
    """Imports TensorFlow and Keras.

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
                tensorflow = importlib.import_module("tensorflow")
                importlib.import_module("keras")
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
