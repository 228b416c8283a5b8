"""Unset fields of finetuning: what is chosen from the model and the data."""

import dataclasses
import json
import types

import numpy as np
import pytest

from keras_attn import finetune
from keras_attn.defaults import finetuning_defaults
from keras_attn.registry import FAMILIES, TASKS
from keras_attn.tasks.classification.baseline import compute_baselines, report_baselines
from keras_attn.tasks.classification.task import choose_pooling
from keras_attn.tasks.finetuning.defaults import (
    PRETRAINED,
    RANDOM,
    RELEASED,
    FinetuningDefaults,
    epochs,
    learning_rate,
)
from tests.support.small_runs import SmallRun


def _run(pretrained=None, **fields):
    config = finetuning_defaults()
    config.update_from_flattened_dict(fields)
    return SmallRun(config, pretrained=pretrained, family=FAMILIES["bert"])


def _pretrained(task="masked_lm", released=False, **heads):
    return types.SimpleNamespace(task=task, heads=heads, released=released)


def _trained(run, hidden_dim=256, num_examples=5000):
    defaults = FinetuningDefaults(run)
    return defaults, defaults.choose_training(num_examples, hidden_dim)


def test_larger_and_released_models_have_smaller_learning_rates():
    assert learning_rate(128, PRETRAINED) == learning_rate(256, PRETRAINED) == 1e-3
    assert learning_rate(512, PRETRAINED) == 5e-4
    assert learning_rate(256, RELEASED) < learning_rate(256, PRETRAINED)
    # Devlin et al. (2018) finetune BERT-base with 2e-5 to 5e-5.
    assert 2e-5 <= learning_rate(768, RELEASED) <= 5.5e-5


def test_the_learning_rate_follows_what_the_weights_start_from():
    for pretrained, origin in (
        (None, RANDOM),
        (_pretrained(), PRETRAINED),
        (_pretrained(released=True), RELEASED),
    ):
        run = _run(pretrained)
        _trained(run)
        assert run.config.train.learning_rate == learning_rate(256, origin)


def test_small_data_is_seen_more_often_within_bounds():
    assert epochs(10**6) == epochs(20_000) == 3.0
    assert epochs(1000) == 10.0 and epochs(5000) == 3.0
    assert epochs(3) == 50.0


def test_given_values_win_and_any_end_of_the_run_counts():
    run = _run(
        _pretrained(),
        **{"train.learning_rate": 0.5, "train.steps": 7, "data.length": 16, "model.pooling": "cls"},
    )
    defaults, _ = _trained(run)
    choose_pooling(run, defaults, "cls")
    defaults.choose_length(np.array([3, 8]), 512, paired=False)
    defaults.report()
    train = run.config.train
    assert (train.learning_rate, train.steps, train.epochs) == (0.5, 7, None)
    assert (run.config.data.length, run.config.model.pooling) == (16, "cls")
    assert run.said == []


@pytest.mark.parametrize(
    ("lengths", "positions", "paired", "length", "windows"),
    [
        ([5, 9, 53], 512, False, 56, None),
        ([5, 9, 600], 512, False, 512, 128),  # a third is longer
        ([5, 9, 600], 512, True, 512, None),  # pairs are not read in windows
        ([9] * 99 + [600], 512, False, 512, None),  # one in a hundred is longer
        ([5, 9, 600], None, False, 512, 128),  # a model with any number of positions
        ([5, 9, 53], 32, False, 32, 8),
    ],
)
def test_the_length_is_that_of_the_texts_up_to_the_positions(
    lengths, positions, paired, length, windows
):
    run = _run()
    FinetuningDefaults(run).choose_length(np.array(lengths), positions, paired)
    assert (run.config.data.length, run.config.data.windows) == (length, windows)
    cut = windows is None and bool(np.mean(np.array(lengths) > length) > 0.05)
    assert any(line.startswith("warning: ") for line in run.said) is cut


def test_a_length_that_truncates_many_texts_is_a_warning_with_a_sufficient_length():
    run = _run(**{"data.length": 16})
    FinetuningDefaults(run).choose_length(np.array([5, 60]), 512, paired=False)
    assert run.config.data.windows is None
    assert run.said == [
        "warning: 50 % of the training rows exceed data.length=16 tokens "
        "and are truncated. Set data.length=64."
    ]


@pytest.mark.parametrize(
    ("family", "pretrained", "pooling"),
    [
        ("bert", None, "mean"),
        ("bert", _pretrained(), "mean"),
        ("bert", _pretrained(released=True), "mean"),
        ("gpt2", _pretrained(released=True), "cls"),
        ("xlnet", _pretrained(released=True), "cls"),
        ("bert", _pretrained("classification"), "cls"),  # of another library, without its pooling
        ("bert", _pretrained("classification", pooling="mean"), "mean"),
        ("gpt2", _pretrained("classification", pooling="last"), "cls"),
    ],
)
def test_classifiers_and_released_models_keep_their_pooling(family, pretrained, pooling):
    run = _run(pretrained)
    run.task, run.family = TASKS["classification"], FAMILIES[family]
    own = run.family.task_models["classification"].OWN
    choose_pooling(run, FinetuningDefaults(run), own)
    assert run.config.model.pooling == pooling


TABLES = {
    "train": types.SimpleNamespace(texts=["good", "good", "bad"] * 4, text_pairs=None),
    "validation": types.SimpleNamespace(texts=["good", "good", "bad"], text_pairs=None),
}
LABELS = {"train": np.array([1, 1, 0] * 4), "validation": np.array([1, 0, 0])}


def _baselines(shares):
    return compute_baselines(TABLES, ("neg", "pos"), LABELS, np.array(shares), "single_label")


def test_the_baselines_are_the_bag_of_bigrams_and_the_most_frequent_class():
    found = _baselines([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3]])
    assert str(found) == "accuracy 1.000 · bag of bigrams 0.667 · most frequent class 0.333"
    assert found.model_is_better and found.predicted_class is None
    assert found.scores == {
        "bag_of_bigrams": pytest.approx(2 / 3),
        "most_frequent": pytest.approx(1 / 3),
    }


def test_an_equal_baseline_is_a_warning_with_advice():
    equal = _baselines([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]])
    assert not equal.model_is_better
    run = _run(_pretrained(), **{"train.learning_rate": 1e-5})
    report_baselines(run, equal, _trained(run)[1])
    assert "warning: the model is not better than its baselines." in run.said[-1]
    assert (
        "Leave train.learning_rate=1e-05 unset: the default for this model is 0.001."
        in run.said[-1]
    )
    run = _run()
    report_baselines(run, equal, _trained(run)[1])
    assert "--pretrained" in run.said[-1]
    run = _run(_pretrained())
    report_baselines(run, equal, _trained(run)[1])
    assert "--config.search.learning_rates=0.0003,0.001,0.003" in run.said[-1]
    run = _run(_pretrained(), **{"train.learning_rate": 1e-5})
    run.compared = True  # with a learning rate of search.learning_rates
    assert _trained(run)[1].startswith("Compare learning rates (--config.search.learning_rates=0.0")


def test_a_perfect_model_is_not_warned_of_a_perfect_baseline():
    perfect = _baselines([[0.1, 0.9], [0.8, 0.2], [0.7, 0.3]])
    assert dataclasses.replace(perfect, bag_of_bigrams=1.0).model_is_better
    assert not dataclasses.replace(perfect, bag_of_bigrams=1.0, model=0.9).model_is_better


def test_one_class_for_all_rows_is_a_warning():
    one = _baselines([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])
    assert one.predicted_class == "pos"
    run = _run()
    report_baselines(run, one, _trained(run)[1])
    assert "the model predicts 'pos' for every validation row" in run.said[-1]


def test_of_errors_the_smaller_is_better():
    labels = {"train": np.array([0.0, 0.0, 3.0] * 4), "validation": np.array([1.0, 1.0, 4.0])}
    found = compute_baselines(TABLES, (), labels, np.array([[1.0], [1.0], [4.0]]), "regression")
    assert found.model == 0.0 and found.model_is_better
    assert found.constant == pytest.approx((0 + 0 + 9) / 3)
    assert not compute_baselines(
        TABLES, (), labels, np.full((3, 1), 9.0), "regression"
    ).model_is_better


@pytest.mark.runs
def test_a_run_without_fields_chooses_prints_and_keeps_them(tmp_path, capsys):
    rows = [
        {"text": f"{word} film {'word ' * (number % 7)}", "label": word}
        for word in ("good", "bad")
        for number in range(40)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def config(**fields):
        found = finetuning_defaults()
        found.update_from_flattened_dict(
            {
                "data.train": str(tmp_path / "rows.jsonl"),
                "data.text": "text",
                "data.label": "label",
                "data.vocab_size": 100,
                **fields,
            }
        )
        return found

    workdir = tmp_path / "run"
    results = finetune(config(**{"train.steps": 6}), workdir=str(workdir))
    out = capsys.readouterr().out
    assert out.count("chosen: ") == 1
    assert results["to_beat"]["bag_of_bigrams"] == 1.0  # one word says the label
    assert "· bag of bigrams 1.000 · most frequent class 0.500" in out
    saved = json.loads((workdir / "config.json").read_text())["config"]
    assert saved["train"]["learning_rate"] == learning_rate(128, RANDOM)
    assert saved["data"]["length"] == 16 and saved["model"]["pooling"] == "mean"
    # A resumed run keeps them and takes more steps if its config says so.
    more = finetune(config(**{"train.steps": 8}), workdir=str(workdir))
    assert more["steps"] == 8 and "chosen: " not in capsys.readouterr().out
    assert finetune(config(), workdir=str(workdir))["steps"] == 8


@pytest.mark.parametrize("family, advised", [("bert", True), ("attentive_cnn", False)])
def test_pretraining_is_advised_where_the_family_supports_it(family, advised):
    run = _run()
    run.family = FAMILIES[family]
    _, advice = _trained(run)
    assert ("--pretrained" in advice) == advised
    assert ("--config.model.family" in advice) != advised
