"""Attention mechanisms and BERT for Keras 3.

Importing this package requires Keras only; modules are imported on first use.
"""

import importlib

from keras_attn.registration import register_with_keras

__version__ = "0.1.0"

_FUNCTIONS = {
    "pretrain": "keras_attn.runs.run_task",
    "finetune": "keras_attn.runs.run_task",
    "load": "keras_attn.inference.loading",
}
_MODULES = ("convert", "generation", "layers", "models", "ops", "visualize")

__all__ = [*_FUNCTIONS, *_MODULES]


def _classes_of_members():
    from keras_attn.registry import keras_classes

    return keras_classes()


register_with_keras(_classes_of_members)


def __getattr__(name):
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(_FUNCTIONS[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"keras_attn.{name}")
    raise AttributeError(f"module 'keras_attn' has no attribute '{name}'")


def __dir__():
    return sorted([*globals(), *__all__])
