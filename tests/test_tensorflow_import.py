"""The import of TensorFlow and Keras in commands."""

import subprocess
import sys

import pytest

from keras_attn.tensorflow_import import _hidden


def test_a_module_is_hidden_unless_it_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with _hidden("wave", "sys"):
        with pytest.raises(ImportError):
            import wave
        import sys as found
    import wave

    assert wave.open and found is sys


def test_commands_import_keras_without_what_it_may_use():
    program = """
import sys
from keras_attn.tensorflow_import import import_tensorflow
import_tensorflow()
assert "keras" in sys.modules and not {"sklearn", "matplotlib"} & sys.modules.keys()
from sklearn.linear_model import LogisticRegression
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
