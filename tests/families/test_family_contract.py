import dataclasses
import pathlib
import types

import pytest

from keras_attn.convert import read
from keras_attn.errors import UserError
from keras_attn.families.architecture_choice import choose_architecture
from keras_attn.families.contract import Family
from keras_attn.models import (
    BertClassifier,
    BertEncoder,
    DistilBertClassifier,
    ElectraClassifier,
    GPT2Classifier,
    RobertaClassifier,
    XLNetClassifier,
)
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.training.variables import variables_by_path

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


class Factorized(Family):
    backbone = BertEncoder


def test_the_least_size_counts_factorized_embeddings():
    # ELECTRA-small has 13.5 million parameters; its vocabulary times its hidden size is 7.8.
    electra_small = {
        "vocabulary_size": 30522,
        "num_layers": 12,
        "hidden_dim": 256,
        "num_heads": 4,
        "intermediate_dim": 1024,
        "max_length": 512,
        "embedding_dim": 128,
    }
    embeddings, feed_forward = (30522 + 512) * 128, 12 * 2 * 256 * 1024
    assert Factorized().min_parameters(electra_small) == embeddings + feed_forward
    assert Factorized().memory("backbone", electra_small, {}, 128, 0).parameters < 13.6e6
    del electra_small["embedding_dim"]
    assert Factorized().min_parameters(electra_small) == 2 * embeddings + feed_forward


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "roberta", "transformer"])
def test_a_model_of_any_length_has_no_position_embeddings(name):
    family = FAMILIES[name]
    architecture = {"vocabulary_size": 50, "num_layers": 1, "hidden_dim": 8, "num_heads": 2}
    unlimited = {**architecture, "max_length": None}
    for estimate in (
        family.min_parameters,
        lambda architecture: family.memory("backbone", architecture, {}, 16, 0).parameters,
    ):
        assert estimate(unlimited) == estimate(architecture)
        assert estimate({**architecture, "max_length": 100}) == estimate(architecture) + 800


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "roberta", "xlnet", "transformer"])
def test_the_least_size_is_below_the_number_of_parameters(name):
    family = FAMILIES[name]
    architecture = {
        "vocabulary_size": 50,
        **next(iter(family.sizes.values())),
        "num_layers": 1,
        "hidden_dim": 8,
    }
    model = family.backbone(**architecture)
    model.build()
    assert 0 < family.min_parameters(model.get_config()) < model.count_params()


class Recurrent:
    """A backbone without attention heads, feed-forward layers and attention dropout."""

    def __init__(self, vocabulary_size: int, num_layers: int, units: int, dropout: float = 0.1):
        self.units = units


class RecurrentFamily(Family):
    name, title, backbone = "recurrent", "Recurrent", Recurrent
    sizes = {"small": {"num_layers": 1, "units": 8}, "large": {"num_layers": 2, "units": 16}}


def _choose(model, pretrained=None):
    run = types.SimpleNamespace(
        task=types.SimpleNamespace(name="classification", pretrains=False),
        config=types.SimpleNamespace(
            model=model, data=types.SimpleNamespace(length=128, pack=1, vocab=None)
        ),
        resumed=False,
        pretrained=pretrained and types.SimpleNamespace(architecture=pretrained),
    )
    return choose_architecture(run, RecurrentFamily(), False)


def test_sizes_are_arguments_of_any_backbone_and_the_first_is_the_default(monkeypatch):
    assert _choose({"size": None}) == {"num_layers": 1, "units": 8}
    assert _choose({"size": "large", "dropout": 0.2}) == {
        "num_layers": 2,
        "units": 16,
        "dropout": 0.2,
    }
    defaults = types.SimpleNamespace(model={})
    monkeypatch.setattr(
        "keras_attn.families.architecture_choice.default_config", lambda task, family: defaults
    )
    known = {"num_layers": 2, "units": 16, "dropout": 0.1}
    assert _choose({"size": "large", "dropout": 0.2}, known) == {**known, "dropout": 0.2}
    with pytest.raises(UserError, match="model.num_layers=1 differs from the pretrained model"):
        _choose({"size": "small"}, known)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("hugging_face/encoder", "google", "only models for backbone, masked_lm, classification"),
        ("keras_hub", "kerashub", "has no head. Set task=encoder"),
        ("keras_hub_gpt2", "kerashub", "supports only GPT-2 language models"),
        ("keras_hub_gpt2", "openai", "supports only GPT-2 language models"),
        ("language_models/xlnet", "google", "supports only permutation language models"),
    ],
)
def test_a_format_rejects_tasks_that_it_does_not_support(name, format, message, tmp_path):
    trained = dataclasses.replace(read(GOLDEN / name), task="tagging", heads={})
    with pytest.raises(UserError, match=f"{message}.*Received: a model for tagging"):
        trained.family.format(format).write(str(tmp_path), trained)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "own"), [(BertClassifier, "cls"), (GPT2Classifier, "last"), (XLNetClassifier, "last")]
)
def test_a_classifier_needs_the_pooler_for_its_own_pooling(model, own):
    assert model.uses_pooler() and model.uses_pooler(pooling=own, num_classes=2)
    assert not model.uses_pooler(pooling="mean")
    assert model.head_names(pooling=own) == model.head_names(pooling="mean") == ["logits_dense"]


@pytest.mark.parametrize("model", [DistilBertClassifier, ElectraClassifier, RobertaClassifier])
def test_a_classifier_with_a_hidden_layer_needs_no_pooler(model):
    for pooling in (None, "cls", "mean"):
        assert not model.uses_pooler(pooling=pooling)
    assert model.head_names() == model.head_names(pooling="cls") == ["hidden_dense", "logits_dense"]
    assert model.head_names(pooling="mean") == ["logits_dense"]


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("bert", {"mlm_dense", "mlm_norm", "mlm_bias", "nsp_dense", "pooler"}),
        ("gpt2", set()),
        ("xlnet", {"output_bias"}),  # but not the pooler
        ("attentive_lstm", set()),
    ],
)
def test_pretrained_heads_are_those_of_the_models_for_pretraining(name, trained):
    assert FAMILIES[name].pretrained_heads == trained


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if FAMILIES.package(name).startswith("keras_attn.")]
)
def test_head_names_are_the_layers_beside_the_backbone(family):
    family = FAMILIES[family]
    run = types.SimpleNamespace(config=types.SimpleNamespace(data=types.SimpleNamespace(length=8)))
    further = {
        "masked_lm": {"next_sentence": family.has_pooler, "tie_embeddings": False},
        "classification": {"num_classes": 3, "pooling": "mean"},
        "tagging": {"num_classes": 3, "crf": True},
        "embedding": {
            "steps": [{"type": "dense", "units": 3, "activation": "linear", "use_bias": True}]
        },
    }
    for task in (name for name in TASKS if TASKS.package(name).startswith("keras_attn.")):
        if not family.supports(task) or family.model_class(task) is None:
            continue
        heads = further.get(task, {})
        architecture = {"vocabulary_size": 20, **next(iter(family.sizes.values()))}
        architecture |= family.default_arguments(run, architecture)
        model, prefix = family.build(task, architecture, heads), family.prefix(task)
        model.build()
        paths = [path.removeprefix(prefix) for path in variables_by_path(model)]
        backbone = f"{family.backbone_name}/"
        own = {path.split("/")[0] for path in paths if not path.startswith(backbone)}
        assert own == set(family.model_class(task).head_names(**heads))


def test_a_task_model_must_have_a_default_name():
    class Unnamed:
        def __init__(self, backbone):
            pass

    class Nameless(Family):
        name, task_models = "nameless", {"masked_lm": Unnamed}

    with pytest.raises(ValueError, match="Unnamed: a task model must have an argument `name`"):
        Nameless().prefix("masked_lm")
