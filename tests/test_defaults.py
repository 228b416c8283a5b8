"""Default configs: fields that scripts rely on exist and can be set."""

import pathlib
import re
import runpy
import types

import ml_collections
import pytest

import tests.support.toys  # noqa: F401
from keras_attn.defaults import (
    as_bert,
    as_published,
    declared,
    default_config,
    finetuning_defaults,
    language_modeling_defaults,
    match_task,
    meaning,
    permutation_modeling_defaults,
    pretraining_defaults,
    select_family,
    select_task,
    translation_defaults,
)
from keras_attn.errors import UserError
from keras_attn.field import Field
from keras_attn.registry import FAMILIES, TASKS, kind_of
from keras_attn.runs.config_checks import check_fields
from keras_attn.shared_fields import describe_sources
from keras_attn.tasks.classification import glue

CONFIGS = pathlib.Path(__file__).parents[1] / "configs"

FIELDS = {
    "data": "task train validation text text_pair label encoding on_bad_text lowercase vocab "
    "vocab_size length",
    "model": "size dropout",
    "train": "steps epochs minutes batch_size learning_rate warmup_fraction schedule optimizer "
    "weight_decay clip_norm seed accumulate precision jit",
    "eval": "every batch_size",
    "checkpoint": "every keep",
}


def _get(config, field):
    for name in field.split("."):
        config = config[name]
    return config


@pytest.mark.parametrize("group", FIELDS)
def test_the_fields_that_scripts_rely_on_exist(group):
    assert set(FIELDS[group].split()) <= set(finetuning_defaults()[group])
    assert {"pretrained", "workdir"} <= set(finetuning_defaults())


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("train.steps", 100, "many"),
        ("train.epochs", 2.5, "many"),
        ("train.minutes", 1.5, "many"),
        ("data.text", "review", 3),
        ("pretrained", "runs/mini", 3),
    ],
)
def test_a_field_without_default_has_a_type(field, value, wrong):
    config = finetuning_defaults()
    assert _get(config, field) is None
    config.update_from_flattened_dict({field: value})
    assert _get(config, field) == value
    with pytest.raises(TypeError):
        config.update_from_flattened_dict({field: wrong})


def test_the_defaults_of_a_task_name_the_task():
    module = runpy.run_path(str(CONFIGS / "multi30k.py"))
    check_fields(module["get_config"](), "translation", "transformer")
    assert "python -m finetune --config=configs/multi30k.py" in module["__doc__"]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("classify", None),
        ("squad", "reading_comprehension"),
        *(("glue", task) for task in glue.GLUE_TASKS),
    ],
)
def test_each_config_is_loaded_by_path_and_shows_its_command(name, task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = runpy.run_path(str(CONFIGS / f"{name}.py"))
    config = module["get_config"](*[task] * (name == "glue"))
    assert isinstance(config, ml_collections.ConfigDict)
    assert config.data.task == task
    assert f"python -m finetune --config=configs/{name}.py" in module["__doc__"]
    assert set(config.to_dict()) == set(finetuning_defaults().to_dict())
    assert config.data.on_bad_text == ("skip" if task == "qqp" else "error")


@pytest.mark.parametrize(
    ("name", "shape", "own"),
    [
        ("pretrain", (2, 128, 2, 512), True),
        ("bert_tiny", (2, 128, 2, 512), True),
        ("bert_mini", (4, 256, 4, 1024), True),
        ("bert_small", (4, 512, 8, 2048), True),
        ("bert_medium", (8, 512, 8, 2048), True),
        ("bert_base", (12, 768, 12, 3072), False),
        ("bert_large", (24, 1024, 16, 4096), False),
    ],
)
def test_each_size_is_the_papers_and_the_large_ones_start_as_bert(name, shape, own):
    module = runpy.run_path(str(CONFIGS / f"{name}.py"))
    config = module["get_config"]()
    check_fields(_ended(config), "masked_lm", "bert")
    assert config.train.steps == (None if own else 1_000_000)
    assert "python -m pretrain " in module["__doc__"]
    run = types.SimpleNamespace(
        config=config, resumed=False, pretrained=None, task=TASKS["masked_lm"]
    )
    found = FAMILIES["bert"].choose_architecture(run)
    assert (
        found["num_layers"],
        found["hidden_dim"],
        found["num_heads"],
        found["intermediate_dim"],
    ) == shape
    assert found["norm_first"] is own and found["dropout"] == (0.0 if own else 0.1)
    assert (found["initial_attention"] == "neighbours") is own
    assert (found["initializer_range"] == 0.02) is not own
    assert (config.model.initial_bias == "frequencies") is own
    assert (config.model.initial_embeddings == "cooccurrences") is own


def _ended(config):
    config = config.copy_and_resolve_references()
    config.train.steps = 1
    return config


@pytest.mark.parametrize(
    ("name", "family", "task", "shape"),
    [
        ("gpt2_small", "gpt2", "causal_lm", (12, 768, 12)),
        ("xlnet_small", "xlnet", "permutation_lm", (4, 512, 8)),
    ],
)
def test_the_configs_of_other_families_have_the_fields_of_their_task(name, family, task, shape):
    module = runpy.run_path(str(CONFIGS / f"{name}.py"))
    config = module["get_config"]()
    assert config.data.task == kind_of(family, task)
    check_fields(_ended(config), task, family)
    assert f"python -m pretrain --config=configs/{name}.py" in module["__doc__"]
    run = types.SimpleNamespace(config=config, resumed=False, pretrained=None, task=TASKS[task])
    found = FAMILIES[family].choose_architecture(run)
    assert (found["num_layers"], found["hidden_dim"], found["num_heads"]) == shape


@pytest.mark.parametrize(
    ("family", "task"), [("bert", "masked_lm"), ("gpt2", "causal_lm"), ("xlnet", "permutation_lm")]
)
def test_the_help_names_the_libraries_whose_checkpoints_a_family_supports(family, task):
    libraries = {
        "huggingface": "transformers",
        "sentence_transformers": "sentence-transformers",
        "kerashub": "KerasHub",
        "openai": "openai/gpt-2",
        "google": {"bert": "google-research/bert"}.get(family, "zihangdai/xlnet"),
    }
    config = default_config(task)
    text = meaning(config, "pretrained")
    places = re.findall(r"a checkpoint of (.*), or hf:NAME", text)[0]
    assert set(re.split(", | or ", places)) == {
        libraries[name] for name in FAMILIES.fields(family).formats if name != "workdir"
    }
    # A classifier supports the checkpoints of all families.
    assert {*re.split(", | or ", places)} <= set(
        re.split(
            ", | or ", meaning(finetuning_defaults(), "pretrained").partition("a checkpoint of ")[2]
        )
    )
    assert "the prepared folder" in meaning(config, "data.vocab")
    assert describe_sources([FAMILIES.fields("transformer")]) == "a workdir"


def test_the_published_values_are_those_of_the_family():
    config = as_published(pretraining_defaults())
    assert (config.model.norm_first, config.model.dropout, config.train.batch_size) == (
        False,
        0.1,
        256,
    )
    assert as_bert(pretraining_defaults()) == config
    with pytest.raises(ValueError, match="gpt2 declares no published values"):
        as_published(language_modeling_defaults())


@pytest.mark.parametrize(
    "defaults",
    [
        pretraining_defaults,
        language_modeling_defaults,
        permutation_modeling_defaults,
        finetuning_defaults,
        translation_defaults,
    ],
)
def test_the_help_mentions_standard_input(defaults):
    config = defaults()
    name = "data.train.source" if "source" in (config.data.train or ()) else "data.train"
    assert "- for standard input" in meaning(config, name)


def test_missing_fields_of_a_config_file_have_their_defaults():
    config = ml_collections.ConfigDict({"data": {"train": "x.txt"}, "train": {"steps": 3}})
    match_task(config, "masked_lm")
    whole = pretraining_defaults()
    whole.data.train, whole.train.steps = "x.txt", 3
    assert config.to_dict() == whole.to_dict()


def test_tasks_with_a_joint_config_are_listed_in_its_help():
    config = finetuning_defaults()
    before = config.to_dict()
    for name in ("multilabel", "sst2", "reading_comprehension"):
        select_task(config, name)
    assert config.to_dict() == before == default_config("span_qa").to_dict()
    text = meaning(config, "data.task")
    for name in ("classification", "span_qa"):
        assert TASKS.fields(name).summary in text and TASKS.fields(name).names[0] in text


def test_selecting_a_task_changes_the_fields_of_a_config():
    config = finetuning_defaults()
    config.train.steps, config.data.label = 7, "stars"
    select_task(config, "counting")
    wanted = default_config("counting")
    wanted.train.steps, wanted.data.task = 7, "counting"
    assert config.data.word == "good" and "stride" not in config.data
    with config.unlocked():
        del config.data["label"]  # fields that are set stay, and are reported as unknown
    assert config.to_dict() == wanted.to_dict()
    assert meaning(config, "data.word") == "word to count"
    assert "counting: how often" in meaning(finetuning_defaults(), "data.task")
    assert "word" not in finetuning_defaults().data


@pytest.mark.parametrize(
    ("config", "task", "wanted"),
    [
        (pretraining_defaults(), "causal_lm", language_modeling_defaults()),
        (language_modeling_defaults(), "masked_lm", pretraining_defaults()),
        (translation_defaults(), "classification", finetuning_defaults()),
        # A family that was chosen stays.
        (
            default_config("causal_lm", "lstm"),
            "permutation_lm",
            default_config("permutation_lm", "lstm"),
        ),
    ],
)
def test_selecting_a_task_changes_the_default_family(config, task, wanted):
    select_task(config, task)
    wanted.data.task = task
    assert config.to_dict() == wanted.to_dict()


@pytest.mark.parametrize(
    ("config", "family", "wanted"),
    [
        (pretraining_defaults(), "gpt2", language_modeling_defaults()),
        (pretraining_defaults(), "xlnet", permutation_modeling_defaults()),
        (language_modeling_defaults(), "bert", pretraining_defaults()),
        (pretraining_defaults(), "lstm", default_config("causal_lm", "lstm")),
        (pretraining_defaults(), "electra", default_config("replaced_tokens")),
        (translation_defaults(), "luong", default_config("translation", "luong")),
        (
            finetuning_defaults(),
            "attentive_lstm",
            default_config("classification", "attentive_lstm"),
        ),
    ],
)
def test_selecting_a_family_changes_the_fields_and_defaults_of_a_config(config, family, wanted):
    config.train.seed = wanted.train.seed = 7
    select_family(config, family)
    wanted.model.family = family
    assert config.to_dict() == wanted.to_dict()
    config.train.steps = 3  # an unset field has a type
    with pytest.raises(TypeError):
        config.train.steps = "many"


def test_a_family_keeps_the_task_that_was_chosen():
    config = pretraining_defaults()
    select_family(config, "electra", keep_task=True)
    assert config.to_dict() == default_config("masked_lm", "electra").to_dict()


def test_two_configs_share_nothing():
    first, second = finetuning_defaults(), finetuning_defaults()
    first.train.seed = 7
    assert second.train.seed == 0


def test_choices_equal_those_of_the_modules_that_use_them():
    from keras_attn.tasks.pretraining.masked_examples import SEGMENTS
    from keras_attn.text import subwords
    from keras_attn.training import optimizers, schedules

    pretraining, translation = declared("masked_lm"), declared("translation")
    assert pretraining["train.optimizer"].choices == optimizers.NAMES
    assert set(pretraining["train.schedule"].choices) == set(schedules.NAMES)
    assert pretraining["data.segments"].choices == SEGMENTS
    assert translation["data.subwords"].choices == subwords.KINDS
    assert set(translation["train.schedule"].choices) == set(schedules.NAMES)


@pytest.mark.parametrize(
    ("field", "good", "bad", "bound"),
    [
        (Field(1, "", above=0), (1, 0.5), (0, -1, float("nan")), "above 0"),
        (Field(0, "", low=0), (0, 1e9), (-1,), "at least 0"),
        (Field(0.1, "", low=0, below=1), (0, 0.99), (1, 2, -1), r"in \[0, 1\)"),
        (Field(0.1, "", high=1), (1, -5), (1.5,), "at most 1"),
        (Field(0.1, "", below=1), (0.5, -5), (1,), "below 1"),
        (Field(1.0, "", above=0), (), (float("inf"),), "finite"),
        (Field(1.0, "", above=0, high=1), (1, 0.5), (0, 1.5, float("nan")), r"in \(0, 1\]"),
        (Field(0, "", low=0, high=2), (0, 2), (-1, 3), r"in \[0, 2\]"),
        (Field("a", "", choices=("a", "b")), ("a", "b", None), ("c",), "one of a, b"),
    ],
)
def test_a_field_accepts_the_values_that_it_declares(field, good, bad, bound):
    for value in good:
        field.check("x", value)
    for value in bad:
        with pytest.raises(UserError, match=f"x must be {bound}. Received: x={value}"):
            field.check("x", value)
