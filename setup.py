"""The wheel installs one name, keras_attn, with the commands and configs inside it."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["keras_attn", "keras_attn.*"]),
        "keras_attn.commands",
        "keras_attn.commands.pretrain",
        "keras_attn.commands.finetune",
        "keras_attn.configs",
    ],
    package_dir={
        "keras_attn.commands.pretrain": "pretrain",
        "keras_attn.commands.finetune": "finetune",
        "keras_attn.configs": "configs",
    },
)
