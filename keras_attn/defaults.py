"""Default configs of runs; `config_tables` declares their fields."""

import ml_collections
from ml_collections.config_dict import placeholder

from keras_attn import config_tables as tables

ENDS = "steps", "epochs", "minutes"  # fields of `train` that end a run, one of them
# Fields that a run chooses where they are unset, from the model, the data and the machine.
CHOSEN = ("train.learning_rate", "train.steps", "train.epochs", "train.minutes",
          "train.accumulate", "data.length", "data.windows", "data.segments", "data.header",
          "model.pooling")
# If none of them is given.
PRETRAINING_MINUTES = 5.0
_TABLES = {"pretraining_defaults": tables.PRETRAINING,
           "language_modeling_defaults": tables.LANGUAGE_MODELING,
           "permutation_modeling_defaults": tables.PERMUTATION_MODELING,
           "finetuning_defaults": tables.FINETUNING,
           "translation_defaults": tables.TRANSLATION}


def pretraining_defaults():
    """Returns the config of MLM + NSP pretraining; `configs/bert_tiny.py` shows its use."""
    return _config(tables.PRETRAINING)


def language_modeling_defaults():
    """Returns the config of training a GPT-2; `configs/gpt2_small.py` shows its use."""
    return _config(tables.LANGUAGE_MODELING)


def permutation_modeling_defaults():
    """Returns the config of training an XLNet; `configs/xlnet_small.py` shows its use."""
    return _config(tables.PERMUTATION_MODELING)


def finetuning_defaults():
    """Returns the config of finetuning a classifier; `configs/classify.py` shows its use."""
    return _config(tables.FINETUNING)


def translation_defaults():
    """Returns the config of training a translator; `configs/multi30k.py` shows its use."""
    return _config(tables.TRANSLATION)


def as_bert(config):
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


def declared(defaults):
    """The fields of a config by dotted name.

    Args:
        defaults: One of the functions above.
    """
    return dict(_flat(_TABLES[defaults.__name__]))


def _flat(table, prefix=""):
    for name, entry in table.items():
        if isinstance(entry, dict):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry


def meaning(config, path):
    """Help of a field of a config; "" for a field that is not one of ours."""
    task = config.get("data", {}).get("task", "")
    table = {"": tables.PRETRAINING, "language_modeling": tables.LANGUAGE_MODELING,
             "permutation_modeling": tables.PERMUTATION_MODELING,
             "translation": tables.TRANSLATION}.get(task, tables.FINETUNING)
    field = dict(_flat(table)).get(path)
    return field.help if field else ""
