"""Faster or smaller ways to what `ops` defines, by backend; tested against the plain way."""

import importlib

import keras


def of_backend(*names):
    """The module of the backend in use, or None if it is not among these."""
    backend = keras.config.backend()
    return importlib.import_module(f"{__name__}.{backend}") if backend in names else None
