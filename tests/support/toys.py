"""Registers the toy family and the toy task for commands and configs that import this module."""

from keras_attn.registry import FAMILIES, TASKS

FAMILIES.register("toy", "tests.support.toy_family")
TASKS.register("counting", "tests.support.toy_task")
