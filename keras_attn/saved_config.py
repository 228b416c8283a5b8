"""The config of a run as it was saved, with the fields that its version did not have."""

from ml_collections import ConfigDict

from keras_attn.defaults import (
    finetuning_defaults,
    language_modeling_defaults,
    permutation_modeling_defaults,
    pretraining_defaults,
    translation_defaults,
)

# By the kind of the run; an "encoder" is a converted BERT without heads.
DEFAULTS = {"pretraining": pretraining_defaults, "encoder": pretraining_defaults,
            "finetuning": finetuning_defaults, "gpt2_finetuning": finetuning_defaults,
            "xlnet_finetuning": finetuning_defaults, "reading": finetuning_defaults,
            "translation": translation_defaults, "language_modeling": language_modeling_defaults,
            "permutation_modeling": permutation_modeling_defaults}
# What versions without these fields did, where it is not what the default is now.
_BEFORE = {"initial_embeddings": "random"}


def complete(config, kind):
    """Adds the fields that a saved config lacks, with their defaults.

    Args:
        config: Nested dict of a config.json.
        kind: Of its run; the config of a kind that is not known stays as it is.

    Returns:
        A new nested dict.
    """
    if kind not in DEFAULTS:
        return config
    defaults = DEFAULTS[kind]().to_dict()
    del defaults["workdir"]
    if kind in ("pretraining", "encoder"):
        defaults["model"].update(_BEFORE)
    if "lowercase" in defaults["data"]:  # None is for a run that has not begun
        defaults["data"]["lowercase"] = not kind.startswith(
            ("gpt2", "xlnet", "permutation"))
    return _merged(defaults, config)


def _merged(defaults, given):
    both = {name: _merged(defaults[name], value)
            if isinstance(value, dict) and isinstance(defaults.get(name), dict) else value
            for name, value in given.items()}
    return {**defaults, **both}


def add_missing(config, defaults):
    """Adds the fields that a ConfigDict lacks, of a config file that was written out by hand."""
    with config.unlocked():
        for name, value in defaults.items():
            if name not in config:
                config[name] = value
            elif isinstance(value, ConfigDict) and isinstance(config[name], ConfigDict):
                add_missing(config[name], value)
