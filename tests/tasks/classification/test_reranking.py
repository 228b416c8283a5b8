"""Reranking: a classifier of pairs whose rows belong to groups."""

import itertools
import json

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.data.sources.tables import read_table
from keras_attn.data.splits import hold_out
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.inference.evaluate import evaluate
from keras_attn.tasks.finetuning.ranking import mrr_of_random_order, rank_metrics, ranks_in_groups

WORDS = ("red", "green", "blue", "black", "white", "brown")


def _rank(rows):
    """Rank of the best relevant row of `(relevant, score)` after a sort that favors the others."""
    ordered = sorted(rows, key=lambda row: (-row[1], row[0]))
    return 1 + [relevant for relevant, _ in ordered].index(True)


def test_ranks_are_places_in_sorted_groups():
    random = np.random.default_rng(0)
    groups = random.permutation(np.repeat(np.arange(40), random.integers(1, 15, 40)))
    scores = random.integers(0, 6, len(groups)) / 5  # with ties
    relevant = random.random(len(groups)) < 0.2
    relevant[[np.flatnonzero(groups == group)[0] for group in range(40)]] = True
    names = [f"query {group}" for group in groups]
    found = ranks_in_groups(names, relevant, scores)
    rows = [np.flatnonzero(groups == group) for group in dict.fromkeys(groups)]
    expected = [_rank(list(zip(relevant[row], scores[row], strict=True))) for row in rows]
    np.testing.assert_array_equal(found, expected)
    metrics = rank_metrics(found)
    assert metrics["mrr"] == pytest.approx(np.mean([1 / rank for rank in expected]))
    assert metrics["recall_at_1"] == np.mean([rank == 1 for rank in expected])


@pytest.mark.parametrize("score", [0.5, np.nan])
def test_a_constant_score_ranks_last(score):
    assert list(ranks_in_groups(["a"] * 5, [False, True, False, False, False], [score] * 5)) == [5]


def test_a_random_order_has_the_mean_over_all_orders():
    groups, relevant = [*"aabbbbc"], [True, False, False, True, True, False, True]
    means = []
    for group in "abc":
        rows = [relevant[n] for n in range(7) if groups[n] == group]
        means.append(np.mean([1 / (1 + p.index(True)) for p in itertools.permutations(rows)]))
    assert mrr_of_random_order(groups, relevant) == pytest.approx(np.mean(means))


def _rows(random, groups):
    for group in range(groups):
        word = WORDS[group % len(WORDS)]
        others = random.permutation([w for w in WORDS if w != word])[:3]
        for text in random.permutation([word, *others]):
            yield {
                "query": f"{word} {group}",
                "document": f"a {text} car",
                "relevant": "yes" if text == word else "no",
            }


def _write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def _config(path, **fields):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": path,
            "data.text": "query",
            "data.text_pair": "document",
            "data.label": "relevant",
            "data.group": "query",
            "data.vocab_size": 100,
            "train.steps": 2,
            "eval.report": False,
        }
        | fields
    )
    return config


def test_a_group_is_held_out_as_a_whole(tmp_path):
    path = _write(tmp_path / "rows.jsonl", _rows(np.random.default_rng(0), 30))
    table = read_table(path, text="query", text_pair="document", label="relevant", group="query")
    train, held = hold_out(table, 0.2, seed=0)
    assert len(held) == 24 and not set(train.groups) & set(held.groups)
    assert held.groups == held.texts


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda rows: [*rows, {**rows[0], "relevant": "maybe"}], "two classes.*maybe, no, yes"),
        (
            lambda rows: [*rows, {**rows[0], "query": " "}],
            "must have a group in column 'query'.*rows.jsonl, line 25",
        ),
        (
            lambda rows: [
                row for row in rows if row["query"] != "green 1" or row["relevant"] == "no"
            ],
            r"'yes' \(data.positive\).*group 'green 1' in .*rows.jsonl, line 5",
        ),
    ],
)
def test_groups_that_cannot_be_ranked_are_errors(change, message, tmp_path):
    rows = list(_rows(np.random.default_rng(0), 6))
    train = _write(tmp_path / "train.jsonl", change(rows) if "maybe" in message else rows)
    path = _write(tmp_path / "rows.jsonl", change(rows))
    with pytest.raises(UserError, match=message):
        finetune(_config(train, **{"data.validation": path}), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run/config.json").exists()


def test_two_classes_are_required_without_a_validation_split_too(tmp_path):
    rows = list(_rows(np.random.default_rng(0), 6))
    path = _write(tmp_path / "rows.jsonl", [*rows, {**rows[0], "relevant": "maybe"}])
    with pytest.raises(UserError, match="data.group=query, single_label of maybe, no, yes"):
        finetune(_config(path, **{"data.holdout": 0.0}), workdir=str(tmp_path / "run"))


@pytest.mark.parametrize(
    "fields", [{"data.task": "multilabel"}, {"data.regression": True}, {"data.task": "mrpc"}]
)
def test_other_kinds_of_labels_have_no_groups(fields, tmp_path):
    with pytest.raises(UserError, match=r"data.group requires data.task=single_label"):
        finetune(_config("x.jsonl", **fields), workdir=str(tmp_path / "run"))


@pytest.mark.runs
def test_a_reranker_is_selected_and_evaluated_by_its_ranks(tmp_path, capsys):
    random = np.random.default_rng(0)
    seen, rows = list(_rows(random, 60)), list(_rows(random, 20))
    train = _write(tmp_path / "train.jsonl", seen)
    valid = _write(tmp_path / "valid.jsonl", rows)
    fields = {
        "data.validation": valid,
        "train.steps": 60,
        "train.batch_size": 32,
        "train.learning_rate": 3e-3,
        "eval.metric": "mrr",
        "eval.every": 30,
    }
    results = finetune(_config(train, **fields), workdir=str(tmp_path / "run"))
    shared = len({row["query"] for row in seen}.intersection(row["query"] for row in rows))
    assert f"warning: {shared} groups of the validation rows are in" in capsys.readouterr().out
    assert 1 / 4 <= results["recall_at_1"] <= results["mrr"] <= 1 == results["recall_at_10"]
    found = evaluate(str(tmp_path / "run"), valid)
    for name in ("mrr", "recall_at_1", "accuracy"):
        assert found[name] == pytest.approx(results[name], abs=1e-6)
    model = load(str(tmp_path / "run"))
    ranked = model.rank("red 0", ["a blue car", "a red car", "a green car"], top_k=2)
    expected = model.predict([("red 0", row["text"]) for row in ranked])
    assert [row["probability"] for row in ranked] == pytest.approx(
        [row["probabilities"]["yes"] for row in expected], abs=1e-6
    )
    assert len(ranked) == 2 and ranked[0]["probability"] >= ranked[1]["probability"]
    with pytest.raises(UserError, match="top_k=0"):
        model.rank("red 0", ["a car"], top_k=0)
    other = _write(tmp_path / "other.jsonl", [{**row, "q": row["query"]} for row in rows])
    assert evaluate(str(tmp_path / "run"), other, group="q")["mrr"] == found["mrr"]
    without = _write(tmp_path / "without.jsonl", [row for row in rows if row["relevant"] == "no"])
    with pytest.raises(UserError, match=r"group 'red 0' in .*without.jsonl, line 1"):
        evaluate(str(tmp_path / "run"), without)
