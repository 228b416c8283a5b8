import math
import types

import pytest

from keras_attn.checkpoints.architectures import check_architecture, check_numbers, check_size
from keras_attn.errors import UserError
from keras_attn.models import GPT2, BertEncoder, Transformer, XLNet


class Recurrent:
    def __init__(
        self,
        vocabulary_size: int,
        units: int = 8,
        projection: int | None = None,
        zoneout: float = 0.0,
        cell: str = "lstm",
        bidirectional: bool = True,
    ):
        self.arguments = {"units": units, "projection": projection, "zoneout": zoneout}

    def get_config(self):
        return self.arguments


FAMILY = types.SimpleNamespace(backbone=Recurrent, title="Recurrent")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("vocabulary_size", "9", "vocabulary_size must be an integer of at least 0"),
        ("units", 2.0, "units must be an integer"),
        ("units", None, "units must be an integer"),
        ("units", -1, "units must be an integer of at least 0. Received: -1 in config.json"),
        ("units", 2**31, "units must be an integer"),
        ("units", True, "units must be an integer"),
        ("projection", [2], "projection must be an integer"),
        ("zoneout", math.nan, "zoneout must be a number of at least 0"),
        ("zoneout", "0.1", "zoneout must be a number"),
    ],
)
def test_the_constructor_determines_the_types_of_an_architecture(name, value, message):
    architecture = {"vocabulary_size": 9, name: value}
    with pytest.raises(UserError, match=message):
        check_architecture(FAMILY, architecture, "config.json", 3)


def test_missing_arguments_take_their_defaults():
    found = check_architecture(FAMILY, {"vocabulary_size": 9, "zoneout": 1}, "config.json", 3)
    assert found == {"units": 8, "projection": None, "zoneout": 1}
    check_numbers(Recurrent, {"projection": None, "cell": 3}, "config.json", 3)
    with pytest.raises(UserError, match="config.json must describe a model of Recurrent. .*cells"):
        check_architecture(FAMILY, {"vocabulary_size": 9, "cells": 2}, "config.json", 3)


@pytest.mark.parametrize("backbone", [BertEncoder, GPT2, XLNet, Transformer])
def test_all_backbones_annotate_their_sizes_and_rates(backbone):
    for name in ("vocabulary_size", "num_layers", "hidden_dim", "num_heads", "intermediate_dim"):
        with pytest.raises(UserError, match=f"{name} must be an integer"):
            check_numbers(backbone, {name: 1.5}, "config.json", 3)
    for name in ("dropout", "attention_dropout", "layer_norm_epsilon"):
        with pytest.raises(UserError, match=f"{name} must be a number"):
            check_numbers(backbone, {name: "0.1"}, "config.json", 3)
    with pytest.raises(UserError, match="exceeds the number of layers in the weights"):
        check_numbers(backbone, {"num_layers": 4}, "config.json", 3)


def test_a_model_is_not_larger_than_its_weights():
    weights = {"a": types.SimpleNamespace(shape=(2, 3)), "b": types.SimpleNamespace(shape=())}
    check_size(7, weights, "a run")
    with pytest.raises(UserError, match="more than 8 values. Received: 7 values in a run"):
        check_size(8, weights, "a run")
