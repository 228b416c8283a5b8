"""Checks of config fields before any work is done."""

import dataclasses

import pytest

from keras_attn.defaults import declared, default_config, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.registry import ENGINES, FAMILIES, TASKS
from keras_attn.runs.config_checks import check_batch_size, check_fields
from keras_attn.runs.run import open_run
from keras_attn.training.engines.tensorflow import fields as tensorflow_fields


@pytest.mark.parametrize("sizes", [(6, 4, 1), (8, 3, 1), (0, 1, 1), (8, 0, 1), (8, 8, 2)])
def test_replicas_and_micro_batches_must_divide_the_batch_size(sizes):
    batch_size, accumulate, replicas = sizes
    with pytest.raises(UserError, match=f"batch_size={batch_size}.*replicas={replicas}"):
        check_batch_size(batch_size, accumulate, replicas)


# One invalid value on each side of the valid range.
OUT_OF_BOUNDS = {
    ("masked_lm", "bert"): {
        "data.length": (0,),
        "data.max_predictions": (0,),
        "data.masked_fraction": (0.0, 1.1),
        "data.short_fraction": (-0.1, 1.1),
        "data.vocab_size": (0,),
        "model.num_layers": (0,),
        "model.hidden_dim": (-8,),
        "model.num_heads": (0,),
        "model.intermediate_dim": (-1,),
        "model.max_length": (0,),
        "model.initializer_range": (0.0,),
        "model.dropout": (-0.1, 1.0),
        "train.warmup_fraction": (-0.1, 1.0),
        "train.weight_decay": (-0.1,),
        "train.seed": (-1, 2**32),
    },
    ("causal_lm", "gpt2"): {"model.max_length": (-1,), "model.dropout": (1.5,)},
    ("permutation_lm", "xlnet"): {
        "data.predicted_fraction": (0.0, 1.0),
        "model.memory_length": (-1,),
        "model.max_distance": (0,),
    },
    ("classification", "bert"): {
        "data.holdout": (-0.1, 1.0),
        "data.windows": (-1,),
        "train.layer_decay": (0.0, 1.1),
        "train.freeze": (-1,),
    },
    ("translation", "transformer"): {
        "model.num_layers": (0,),
        "model.hidden_dim": (0,),
        "model.num_heads": (0,),
        "model.intermediate_dim": (0,),
        "model.label_smoothing": (-0.1, 1.0),
        "train.beta_2": (-0.1, 1.0),
        "eval.length_penalty": (-0.1,),
    },
}


@pytest.mark.parametrize(
    ("names", "path", "value"),
    [
        (names, path, value)
        for names, fields in OUT_OF_BOUNDS.items()
        for path, values in fields.items()
        for value in values
    ],
)
def test_a_number_out_of_bounds_is_an_error_that_names_its_field(names, path, value):
    config = default_config(*names)
    config.train.update(steps=1)
    check_fields(config, *names)
    config.update_from_flattened_dict({path: value})
    with pytest.raises(UserError, match=rf"^{path} must be .*Received: {path}={value}$"):
        check_fields(config, *names)


def test_every_number_has_a_lower_bound():
    for task in TASKS:
        for family in FAMILIES:
            if FAMILIES[family].supports(task) and TASKS.fields(task).command:
                for path, field in declared(task, family).items():
                    if field.value_type in (int, float):
                        assert field.low is not None or field.above is not None, path


def test_a_run_has_the_values_that_its_engine_fixes(tmp_path, monkeypatch):
    fixed = dataclasses.replace(tensorflow_fields.FIELDS, fixed={"train.jit": True})
    monkeypatch.setattr(tensorflow_fields, "FIELDS", fixed)
    config = pretraining_defaults()
    config.train.jit = False
    with open_run(
        TASKS["masked_lm"],
        FAMILIES["bert"],
        config,
        workdir=tmp_path / "run",
        pretrained=None,
        dry_run=False,
        compared=False,
        engine_options={"name": "tensorflow"},
    ) as run:
        assert run.config.train.jit is True and config.train.jit is False
    assert ENGINES.fields("tensorflow") is fixed


def test_a_missing_field_has_the_value_before_it_existed():
    field = declared("masked_lm")["model.initial_embeddings"]
    assert (field.value, field.value_if_missing) == ("cooccurrences", "random")
    assert declared("masked_lm")["train.seed"].value_if_missing == 0
