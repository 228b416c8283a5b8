import types

import pytest

from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.registry import FAMILIES, TASKS

PRETRAINING = {"bert": "masked_lm", "gpt2": "causal_lm", "xlnet": "permutation_lm"}
ENCODERS = list(PRETRAINING)


def _choose(family, task, fields=None, pretrained=None, saved=None, use_pooler=False):
    config, lines = default_config(task, family), []
    config.data.length = config.data.length or 8
    config.update_from_flattened_dict(fields or {})
    run = types.SimpleNamespace(
        config=config,
        task=TASKS[task],
        resumed=saved is not None,
        say=lines.append,
        saved=saved and {"architecture": saved},
        pretrained=pretrained and types.SimpleNamespace(architecture=pretrained),
    )
    return FAMILIES[family].choose_architecture(run, use_pooler), lines


def _known(family, **arguments):
    """Returns all arguments of a small backbone."""
    backbone = FAMILIES[family].backbone(
        vocabulary_size=9, num_layers=1, hidden_dim=8, num_heads=2, **arguments
    )
    config = backbone.get_config()
    return {
        name: config[name] for name in config if name not in ("name", "seed", "trainable", "dtype")
    }


@pytest.mark.parametrize("family", [*ENCODERS, "transformer"])
def test_a_new_model_has_the_shape_of_its_size_and_the_fields_that_override_it(family):
    task = PRETRAINING.get(family, "translation")
    found, _ = _choose(family, task, {"model.num_layers": 3})
    tiny = FAMILIES[family].sizes["tiny"]
    assert {**tiny, "num_layers": 3}.items() <= found.items()
    assert "vocabulary_size" not in found


@pytest.mark.parametrize("family", ENCODERS)
def test_dropout_may_differ_from_that_of_the_pretrained_model(family):
    known = _known(family, dropout=0.1, attention_dropout=0.2)
    kept, _ = _choose(family, PRETRAINING[family], {"data.length": 8}, known)
    assert (kept["dropout"], kept["attention_dropout"]) == (0.1, 0.2)
    found, _ = _choose(family, PRETRAINING[family], {"data.length": 8, "model.dropout": 0.3}, known)
    assert (found["dropout"], found["attention_dropout"]) == (0.3, None)
    finetuned, _ = _choose(family, "classification", {"model.family": family}, known)
    assert finetuned["dropout"] == 0.1 and finetuned["attention_dropout"] is None


@pytest.mark.parametrize("family", [*ENCODERS, "transformer"])
def test_the_shape_must_be_that_of_the_pretrained_model(family):
    task = PRETRAINING.get(family, "translation")
    with pytest.raises(UserError, match="model.hidden_dim=16 differs from the pretrained model"):
        _choose(family, task, {"model.hidden_dim": 16, "data.length": 8}, _known(family))


def test_a_size_sets_its_feed_forward_size():
    known = _known("gpt2", intermediate_dim=20) | {
        "num_layers": 2,
        "hidden_dim": 128,
        "num_heads": 2,
    }
    with pytest.raises(UserError, match="intermediate_dim=512 differs.*intermediate_dim=20"):
        _choose("gpt2", "causal_lm", {"model.size": "tiny", "data.length": 8}, known)


def test_only_a_family_with_position_embeddings_extends_them():
    fields = {"model.max_length": 64, "data.length": 48}
    found, lines = _choose("bert", "masked_lm", fields, _known("bert", max_length=32))
    assert found["max_length"] == 64 and lines == [
        "positions 33 to 64 are initialized by repetition"
    ]
    with pytest.raises(UserError, match="model.max_length=64 differs.*max_length=32"):
        _choose("gpt2", "causal_lm", fields, _known("gpt2", max_length=32))


def test_sequences_must_not_exceed_the_positions():
    known = _known("bert", max_length=32)
    with pytest.raises(UserError, match="Lower data.length, or set model.max_length=33"):
        _choose("bert", "masked_lm", {"data.length": 33}, known)
    with pytest.raises(UserError, match="pretrain the model further with model.max_length=33"):
        _choose("bert", "classification", {"data.length": 33}, known)
    with pytest.raises(UserError, match="data.length=33 exceeds the model's 32 positions"):
        _choose("gpt2", "classification", {"data.length": 33}, _known("gpt2", max_length=32))
    assert _choose(
        "transformer", "translation", {"data.length": 33}, _known("transformer", max_length=32)
    )  # sinusoidal positions have no maximum


@pytest.mark.parametrize("family", ["gpt2", "xlnet"])
def test_some_families_require_pretrained_weights_for_finetuning(family):
    with pytest.raises(UserError, match="requires --pretrained"):
        _choose(family, "classification")
    for field, value in (("model.size", "tiny"), ("data.vocab", "folder")):
        with pytest.raises(UserError, match=f"{field} must be left out"):
            _choose(family, "classification", {field: value}, _known(family))
    assert _choose("bert", "classification")[0]["num_layers"] == 2


@pytest.mark.parametrize(
    ("family", "has_pooler"),
    [("bert", True), ("xlnet", True), ("gpt2", False), ("transformer", False)],
)
def test_a_pooler_is_added_if_the_task_uses_it(family, has_pooler):
    assert FAMILIES[family].has_pooler is has_pooler
    if family == "transformer":
        return
    for wanted in (True, False):
        found, _ = _choose(family, "classification", pretrained=_known(family), use_pooler=wanted)
        assert found.get("use_pooler") == (wanted if has_pooler else None)


def test_a_resumed_run_keeps_its_architecture():
    saved = {**_known("xlnet"), "memory_length": 3, "use_pooler": True}
    found, _ = _choose("xlnet", "classification", saved=saved)
    assert found == {name: value for name, value in saved.items() if name != "vocabulary_size"}
