"""Registers the toy family and the toy task; a command that imports it, or a config, has them."""

from keras_attn.registry import FAMILIES, TASKS

FAMILIES.register("toy", "tests.support.toy_family")
TASKS.register("counting", "tests.support.toy_task")
