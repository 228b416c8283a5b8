"""Several runs of one config: search, mean over seeds, and the best run."""

import gc
import json
import statistics

import pytest
import tensorflow as tf
from scipy import stats

from keras_attn import finetune, load
from keras_attn.defaults import finetuning_defaults, select_family
from keras_attn.errors import DivergedError, UserError
from keras_attn.runs.sweep import repeat, seeds_of


def _config(folder, **fields):
    rows = [
        {"text": f"{word} film {number}", "label": word}
        for word in ("good", "bad")
        for number in range(40)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "rows.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 16,
            "data.vocab_size": 100,
            "data.holdout": 0.3,
            "train.steps": 3,
            "train.batch_size": 8,
            "train.learning_rate": 0.003,
            **fields,
        }
    )
    return config


def _results(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Folder of a grid search over four settings with three seeds."""
    folder = tmp_path_factory.mktemp("searched")
    config = _config(
        folder,
        **{
            "train.seeds": 3,
            "search.learning_rates": "0.01, 0.0001",
            "search.batch_sizes": "8,16",
            "eval.metric": "loss",
        },
    )
    finetune(config, workdir=str(folder / "run"))
    return folder / "run"


@pytest.mark.slow
def test_each_setting_runs_once_and_the_best_one_with_all_seeds(searched):
    runs = _results(searched)["runs"]
    grid = {
        (rate, size): [
            run for run in runs if run["learning_rate"] == rate and run["batch_size"] == size
        ]
        for rate in (0.01, 0.0001)
        for size in (8, 16)
    }
    assert len(runs) == 6 and _results(searched)["tried"] == 4
    firsts = {setting: found[0]["loss"] for setting, found in grid.items()}
    best = min(firsts, key=firsts.get)
    assert [run["seed"] for run in grid[best]] == [0, 1, 2]
    assert all(len(found) == 1 for setting, found in grid.items() if setting != best)
    for run in runs:
        own = _results(searched / run["run"])
        assert all(run[name] == own[name] for name in ("accuracy", "f1", "loss"))


@pytest.mark.slow
def test_mean_deviation_and_interval_are_over_seeds(searched):
    results = _results(searched)
    best = [
        run
        for run in results["runs"]
        if run["run"].startswith(results["best_run"].rpartition("-seed-")[0] + "-seed-")
    ]
    for name in ("accuracy", "f1", "loss"):
        values = [run[name] for run in best]
        assert results[name] == pytest.approx(statistics.mean(values))
        deviation = statistics.stdev(values)
        assert results[f"{name}_deviation"] == pytest.approx(deviation)
        half = stats.t.ppf(0.975, 2) * deviation / 3**0.5
        assert results[f"{name}_interval"] == pytest.approx(half, abs=1e-9)
    assert results["best_run"] == min(best, key=lambda run: run["loss"])["run"]


@pytest.mark.slow
def test_loading_the_folder_loads_the_best_run(searched):
    best = searched / _results(searched)["best_run"]
    texts = ["good film", "bad film"]
    assert load(str(searched)).predict(texts) == load(str(best)).predict(texts)


@pytest.mark.slow
def test_all_runs_have_the_same_rows_and_different_weights(searched):
    results = _results(searched)
    own = [_results(searched / run["run"]) for run in results["runs"]]
    assert len({run["data_sha256"]["validation rows"] for run in own}) == 1
    assert len({run["weights_sha256"] for run in own}) == 6


@pytest.mark.slow
def test_finished_runs_are_not_repeated(tmp_path):
    fields = {"train.seeds": 2}
    first = finetune(_config(tmp_path, **fields), workdir=str(tmp_path / "run"))
    again = finetune(_config(tmp_path, **{"train.seeds": 3}), workdir=str(tmp_path / "run"))
    assert again["runs"][:2] == first["runs"]
    own = [_results(tmp_path / "run" / run["run"]) for run in again["runs"]]
    assert all(one["to_beat"] == again["to_beat"] for one in own)
    good = sum(one["classes"]["good"]["recall"] for one in own) / 3
    assert again["classes"]["good"]["recall"] == pytest.approx(good)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert all(f'href="{run["run"]}/report.html"' in page for run in again["runs"])
    assert (tmp_path / "run" / again["best_run"] / "report.html").exists()
    lines = (tmp_path / "run" / first["runs"][0]["run"] / "metrics.jsonl").read_text()
    assert lines.count("\n") == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"search.learning_rates": "fast"}, "search.learning_rates=fast"),
        ({"search.batch_sizes": "8,-1"}, "search.batch_sizes=8,-1"),
        ({"search.batch_sizes": "8.5"}, "search.batch_sizes=8.5"),
        ({"train.seeds": 0}, "train.seeds=0"),
        ({"train.seeds": 2, "data.holdout": 0.0}, "data.holdout"),
    ],
)
def test_invalid_settings_of_several_runs_are_errors(tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        finetune(_config(tmp_path, **fields), workdir=str(tmp_path / "run"))
    assert not list(tmp_path.glob("run/*/config.json"))


@pytest.mark.slow
def test_a_folder_of_several_runs_rejects_a_single_run(searched, tmp_path):
    with pytest.raises(UserError, match="must not contain several runs"):
        finetune(_config(tmp_path), workdir=str(searched))


def test_a_results_json_without_a_best_run_is_not_a_folder_of_runs(tmp_path):
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(UserError, match="does not contain a model"):
        load(str(tmp_path))


def test_the_best_run_must_be_a_folder_beside_its_results(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"best_run": "../elsewhere"}))
    with pytest.raises(UserError, match="beside it"):
        load(str(tmp_path))


def test_all_runs_must_be_folders_beside_their_results(tmp_path):
    run = {"learning_rate": 1, "batch_size": 2, "seed": 0}
    (tmp_path / "results.json").write_text(
        json.dumps(
            {"best_run": "one", "runs": [{"run": "one", **run}, {"run": "../elsewhere", **run}]}
        )
    )
    with pytest.raises(UserError, match="beside it"):
        seeds_of(str(tmp_path))


@pytest.mark.parametrize(
    "runs",
    [
        3,
        [1],
        [{}],
        [{"run": ["one"]}],
        [{"run": "one"}],
        {"run": "one"},
        [{"run": "one", "learning_rate": 1, "batch_size": 2}],
    ],
)
def test_an_invalid_results_json_is_an_error(tmp_path, runs):
    (tmp_path / "results.json").write_text(json.dumps({"best_run": "one", "runs": runs}))
    with pytest.raises(UserError, match="results.json does not describe several runs"):
        seeds_of(str(tmp_path))


@pytest.mark.runs
def test_a_diverged_setting_is_reported_and_not_selected(tmp_path, capsys):
    config = _config(tmp_path, **{"eval.report": False})

    def run_once(config, workdir, *_, **__):
        if config.train.learning_rate > 1:
            raise DivergedError("Training diverged")
        return {"accuracy": 0.25, "loss": 2.0}

    def search(rates):
        config.search.learning_rates = rates
        return repeat(run_once, config, str(tmp_path / "runs"), None, False)

    results = search("5,0.01")
    assert results["best_run"].startswith("rate-0.01-")
    assert [run.get("diverged", False) for run in results["runs"]] == [True, False]
    assert "diverged" in capsys.readouterr().out
    with pytest.raises(UserError, match="All runs diverged"):
        search("5,7")


def test_other_settings_require_another_folder(tmp_path):
    def several(**fields):
        config = _config(tmp_path, **{"train.seeds": 2, "eval.report": False, **fields})
        return repeat(
            lambda *_, **__: {"accuracy": 0.25, "loss": 2.0},
            config,
            str(tmp_path / "runs"),
            None,
            False,
        )

    several()
    for name, value in {"train.learning_rate": 0.5, "data.length": 8}.items():
        with pytest.raises(UserError, match=f"Received: {name}={value}, was"):
            several(**{name: value})
    assert len(several(**{"train.seeds": 3})["runs"]) == 3


def test_a_field_of_the_family_that_settings_lack_has_its_default(tmp_path):
    config = _config(tmp_path, **{"eval.report": False})
    select_family(config, "attentive_lstm")
    config.train.seeds = 2

    def several():
        return repeat(lambda *_, **__: {"loss": 2.0}, config, tmp_path / "runs", None, False)

    several()
    path = tmp_path / "runs/settings.json"
    settings = json.loads(path.read_text())
    assert settings["model"].pop("reduce") == "attention"
    path.write_text(json.dumps(settings))  # as written by a version without the field
    several()


@pytest.mark.runs
@pytest.mark.parametrize("lost", [[0], [1, 2], [0, 1, 2]])
def test_diverged_seeds_are_reported_and_not_averaged(tmp_path, capsys, lost):
    config = _config(tmp_path, **{"train.seeds": 4})

    def run_once(config, workdir, *_, **__):
        if config.train.seed in lost:
            raise DivergedError("Training diverged")
        return {"accuracy": config.train.seed / 8, "loss": 2.0}

    results = repeat(run_once, config, str(tmp_path / "runs"), None, False)
    left = [seed for seed in range(4) if seed not in lost]
    assert results["accuracy"] == sum(left) / 8 / len(left)
    assert ("accuracy_interval" in results) == (len(left) > 1)
    assert results["diverged"] == len(lost) and len(results["runs"]) == 4
    listed = f"diverged seeds, not averaged: {', '.join(map(str, lost))}\n"
    assert listed in capsys.readouterr().out
    page = (tmp_path / "runs/report.html").read_text(encoding="utf-8")
    assert f"Diverged seeds, not averaged: {len(lost)}." in page


@pytest.mark.slow
def test_a_finished_run_frees_the_graphs_of_its_model(tmp_path):
    counts = []
    for number in range(3):
        finetune(_config(tmp_path), workdir=str(tmp_path / f"{number}"))
        gc.collect()
        counts.append(
            sum(
                isinstance(one, tf.Graph) and len(one.get_operations()) > 100
                for one in gc.get_objects()
            )
        )
    assert counts[1] == counts[2]
