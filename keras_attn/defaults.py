"""Default configs of runs, made of the fields that tasks and families declare."""

import ml_collections
from ml_collections.config_dict import placeholder

from keras_attn.registry import FAMILIES, TASKS, task_of_config

ENDS = "steps", "epochs", "minutes"  # fields of `train` that end a run, one of them
# Fields that a run chooses where they are unset, from the model, the data and the machine.
CHOSEN = ("train.learning_rate", "train.steps", "train.epochs", "train.minutes",
          "train.accumulate", "data.length", "data.windows", "data.segments", "data.header",
          "model.pooling", "model.family")


def pretraining_defaults() -> ml_collections.ConfigDict:
    """Returns the config of MLM + NSP pretraining; `configs/bert_tiny.py` shows its use."""
    return default_config("masked_lm")


def language_modeling_defaults() -> ml_collections.ConfigDict:
    """Returns the config of training a GPT-2; `configs/gpt2_small.py` shows its use."""
    return default_config("causal_lm")


def permutation_modeling_defaults() -> ml_collections.ConfigDict:
    """Returns the config of training an XLNet; `configs/xlnet_small.py` shows its use."""
    return default_config("permutation_lm")


def finetuning_defaults() -> ml_collections.ConfigDict:
    """Returns the config of finetuning a classifier; `configs/classify.py` shows its use."""
    return default_config("classification")


def translation_defaults() -> ml_collections.ConfigDict:
    """Returns the config of training a translator; `configs/multi30k.py` shows its use."""
    return default_config("translation")


def default_config(task: str, family: str | None = None) -> ml_collections.ConfigDict:
    """Returns the default config of a task.

    Args:
        task: Name in `keras_attn.registry.TASKS`.
        family: Name in `keras_attn.registry.FAMILIES`; None: the usual one of the task.
    """
    return _config(_nested_fields(task, family))


def declared(task: str, family: str | None = None) -> dict:
    """Returns the `Field`s of a config by dotted name; arguments as those of `default_config`."""
    return dict(_flat(_nested_fields(task, family)))


def _nested_fields(task, family):
    module = TASKS.fields(task)
    return module.config_fields(FAMILIES.fields(family or module.FAMILY))


def as_bert(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Sets the fields of a pretraining config to what Devlin et al. (2018) used."""
    config.model.update(
        norm_first=False, initial_attention="uniform", initializer_range=0.02, dropout=0.1,
        initial_bias="zeros", initial_embeddings="random",
    )
    config.train.update(batch_size=256, learning_rate=1e-4, warmup_fraction=0.01)
    return config


def _config(table):
    config = ml_collections.ConfigDict()
    for name, entry in table.items():
        if isinstance(entry, dict):
            config[name] = _config(entry)
        else:
            # A placeholder has a type, so that a flag can set it.
            unset = isinstance(entry.default, type)
            config[name] = placeholder(entry.default) if unset else entry.default
    return config


def fields(config, prefix=""):
    """Dotted names and values of all fields of a config."""
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _flat(table, prefix=""):
    for name, entry in table.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry


def meaning(config, path):
    """Help of a field of a config; "" for a field that is not one of ours."""
    unnamed = "classification" if "task" in config.get("data", {}) else "masked_lm"
    task, family = task_of_config(config, unnamed), config.get("model", {}).get("family")
    field = declared(task, family).get(path)
    return field.help if field else ""
