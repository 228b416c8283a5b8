"""The number of micro-batches is chosen by the memory of a step."""

import json
import types

import pytest

from keras_attn import pretrain
from keras_attn.defaults import (
    finetuning_defaults,
    language_modeling_defaults,
    permutation_modeling_defaults,
    pretraining_defaults,
    translation_defaults,
)
from keras_attn.errors import UserError
from keras_attn.models import GPT2, BertEncoder, BertPretrainer, Transformer, XLNet
from keras_attn.registry import FAMILIES, TASKS, family_and_task
from keras_attn.runs import step_memory
from keras_attn.runs.step_memory import choose_sizes, step_size
from keras_attn.training import process_memory
from keras_attn.training.engines import make_engine
from tests.support.small_language_models import config_of, write_texts

GB = 10**9
SMALL = {
    "num_layers": 12,
    "hidden_dim": 768,
    "num_heads": 12,
    "vocabulary_size": 50257,
    "max_length": 1024,
    "dropout": 0.0,
}
SHAPE = {"num_layers": 3, "hidden_dim": 32, "num_heads": 4, "vocabulary_size": 500}


@pytest.fixture
def free(monkeypatch):
    def set_free(number):
        monkeypatch.setattr(process_memory, "free_memory", lambda: number)

    return set_free


def gpt2_small(**fields):
    config = language_modeling_defaults()
    config.update_from_flattened_dict({"data.length": 1024, "eval.batch_size": 4, **fields})
    lines = []
    engine = make_engine(strategy="one_device")
    accumulate, rows = choose_sizes(
        TASKS["causal_lm"], FAMILIES["gpt2"], SMALL, config, engine, lines.append
    )
    return (accumulate, lines) if rows == 4 else (accumulate, rows, lines)


def test_the_fewest_micro_batches_that_fit_are_chosen(free):
    chosen = []
    for available in (500, 40, 20, 10):
        free(available * GB)
        accumulate, lines = gpt2_small()
        assert 32 % accumulate == 0 and len(lines) == (accumulate > 1)
        chosen.append(accumulate)
    assert chosen[0] == 1 and chosen == sorted(chosen) and chosen[-1] > chosen[1] > 1
    assert lines[0].startswith(
        f"train.accumulate={chosen[-1]}: a step of 32 rows would require about "
    )
    assert lines[0].endswith("GB, 10 GB are available")


def test_rematerialization_requires_fewer_micro_batches(free):
    free(12 * GB)
    assert gpt2_small(**{"train.remat": True})[0] < gpt2_small()[0]


def test_a_step_that_cannot_fit_is_an_error_with_advice(free):
    free(2 * GB)
    with pytest.raises(UserError, match=r"micro-batches of one row.*GB\. Lower data.length, "):
        gpt2_small()


def test_rematerialization_is_advised_where_it_suffices(free):
    free(5 * GB)
    with pytest.raises(UserError, match=r"GB\. Set train.remat=True, lower data.length"):
        gpt2_small()
    assert gpt2_small(**{"train.remat": True})[0] > 1
    free(2 * GB)
    with pytest.raises(UserError, match="lower model.size, or train on"):
        gpt2_small(**{"train.remat": True})
    with pytest.raises(UserError, match=r"\. Lower data.length, use a smaller pretrained model"):
        gpt2_small(pretrained="runs/gpt2")


def test_a_warning_names_only_what_can_still_be_changed(free):
    free(1 * GB)
    for accumulate, remat, end in (
        (1, False, "; a higher train.accumulate or train.remat=True requires less"),
        (1, True, "; a higher train.accumulate requires less"),
        (32, False, "; train.remat=True requires less"),
        (32, True, "1.0 GB are available"),
    ):
        lines = gpt2_small(**{"train.accumulate": accumulate, "train.remat": remat})[-1]
        assert lines[0].endswith(end)


def test_a_given_number_of_micro_batches_is_used_with_a_warning(free):
    free(10 * GB)
    chosen, lines = gpt2_small(**{"train.accumulate": 1})
    assert chosen == 1 and lines[0].startswith("warning: with train.accumulate=1 a step of 32 rows")
    free(500 * GB)
    assert gpt2_small(**{"train.accumulate": 4}) == (4, [])


def test_an_evaluation_batch_is_lowered_to_fit(free):
    free(10 * GB)
    _, rows, lines = gpt2_small(**{"eval.batch_size": 64})
    assert 1 <= rows < 64 and 64 % rows == 0
    assert any(
        line.startswith(f"eval.batch_size={rows}: a batch of 64 rows would require about ")
        for line in lines
    )
    free(500 * GB)
    assert gpt2_small(**{"eval.batch_size": 64}) == (1, 64, [])


def test_without_known_free_memory_nothing_is_split(free):
    free(None)
    assert gpt2_small() == (1, [])


@pytest.mark.parametrize(
    ("kind", "defaults", "model"),
    [
        ("pretraining", pretraining_defaults, lambda: BertPretrainer(BertEncoder(**SHAPE))),
        ("language_modeling", language_modeling_defaults, lambda: GPT2(**SHAPE, max_length=512)),
        ("permutation_modeling", permutation_modeling_defaults, lambda: XLNet(**SHAPE)),
        ("translation", translation_defaults, lambda: Transformer(**SHAPE)),
        ("finetuning", finetuning_defaults, lambda: BertEncoder(**SHAPE)),
    ],
)
def test_the_estimated_parameters_equal_those_of_the_model(kind, defaults, model):
    model = model()
    model.build()
    max_length = {} if kind in ("permutation_modeling", "translation") else {"max_length": 512}
    config = defaults()
    config.data.length = config.data.length or 128  # chosen by finetuning before
    family, task = family_and_task(kind)
    size = step_size(TASKS[task], FAMILIES[family], {**SHAPE, **max_length}, config)
    assert size.parameters == pytest.approx(model.count_params(), rel=0.06)


def test_a_teacher_adds_its_weights_and_the_forward_pass_of_its_layers():
    config, shape = pretraining_defaults(), {**SHAPE, "max_length": 512}
    own = TASKS["masked_lm"], FAMILIES["bert"]
    large = {**shape, "hidden_dim": 64, "num_layers": 5}
    teacher = types.SimpleNamespace(family=FAMILIES["bert"], architecture=large, heads={})
    alone, taught = (step_size(*own, shape, config, None, model) for model in (None, teacher))
    model = BertPretrainer(BertEncoder(**large))
    model.build()
    added = [taught.bytes(rows) - alone.bytes(rows) for rows in (1, 9)]
    assert added[0] > 4 * 0.94 * model.count_params()
    # Without a gradient no activations are stored: far fewer than for training the teacher.
    trained = [step_size(*own, large, config).bytes(rows) for rows in (1, 9)]
    assert 0 < added[1] - added[0] < 0.5 * (trained[1] - trained[0])
    assert taught.evaluation_bytes(4) == alone.evaluation_bytes(4)


@pytest.mark.runs
def test_a_resumed_run_keeps_the_chosen_micro_batches(tmp_path, free, monkeypatch):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_texts(corpus / "train.txt", 400, 0)
    write_texts(corpus / "valid.txt", 30, 1)
    monkeypatch.setattr(step_memory, "OVERHEAD", 0)
    config = config_of(corpus, **{"train.steps": 2})
    size = step_size(
        TASKS["causal_lm"],
        FAMILIES["gpt2"],
        {
            "num_layers": 1,
            "hidden_dim": 32,
            "num_heads": 2,
            "vocabulary_size": 320,
            "max_length": 48,
        },
        config,
    )
    free(size.bytes(3, accumulate=4) / step_memory.RESERVE)
    pretrain(config, workdir=str(tmp_path / "run"))
    assert (
        json.loads((tmp_path / "run/config.json").read_text())["config"]["train"]["accumulate"] == 4
    )
    free(500 * GB)
    config.train.steps = 3
    assert pretrain(config, workdir=str(tmp_path / "run"))["steps"] == 3
    assert (
        json.loads((tmp_path / "run/config.json").read_text())["config"]["train"]["accumulate"] == 4
    )
