"""User errors have a one-line message and leave no partial files."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from keras_attn import finetune, load, pretrain
from keras_attn.convert import read_ready
from keras_attn.defaults import declared, finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.saved_config import check_same
from keras_attn.workdir import Workdir
from tests.support.started_commands import TINY, weights

pytestmark = pytest.mark.runs

PRETRAINING = [
    ({"data.train": "{texts}/nowhere.txt"}, "nowhere.txt"),
    ({"data.train": "{texts}/none*.txt"}, r"none\*.txt"),
    ({"data.train": "{texts}/train.txt,{texts}/gone.txt"}, "gone.txt"),
    ({"data.train": "{bad}/empty.txt"}, "empty.txt"),
    ({"data.train": "{bad}/latin1.txt"}, "latin1.txt.*line 3|line 3.*latin1.txt"),
    ({"data.train": "{bad}/single.txt", "data.segments": "next_sentence"}, "two sentences"),
    ({"data.train": "{bad}/gone.tfrecord", "data.vocab": "{bad}/vocab.txt"}, "gone.tfrecord"),
    ({"data.train": "{bad}/gone.tfrecord"}, "data.vocab"),
    ({"data.train": None}, "data.train"),
    ({"data.validation": "{texts}/nowhere.txt"}, "nowhere.txt"),
    ({"data.encoding": "utf-99"}, "utf-99"),
    ({"data.format": "linse"}, "linse"),
    ({"data.on_bad_text": "skipp"}, "error, skip. Received: data.on_bad_text=skipp"),
    ({"data.vocab": "{bad}/nowhere.txt"}, "nowhere.txt"),
    ({"data.vocab": "{bad}/no_mask.txt"}, r"\[MASK\]"),
    ({"data.vocab": "{bad}/twice.txt"}, "(?i)line 6|twice|duplicate"),
    ({"data.vocab_size": 3}, "(?i)vocabulary"),
    ({"data.length": 65}, "data.length=65 exceeds.*64 positions"),
    ({"data.length": 4}, "length=4"),
    ({"data.max_predictions": 0}, "max_predictions=0"),
    ({"data.masked_fraction": 0.0}, "masked_fraction=0"),
    ({"train.minutes": 1.0}, "Received: steps and minutes"),
    ({"train.steps": 0}, "train.steps=0"),
    ({"train.stpes": 3}, "Received: train.stpes. Did you mean train.steps?"),
    ({"train.batch_size": None}, "train.batch_size must have a value"),
    ({"train.batch_size": 7}, "train.batch_size=7, train.accumulate=2"),
    ({"train.learning_rate": -1.0}, "train.learning_rate=-1.0"),
    ({"train.learning_rate": float("nan")}, "train.learning_rate=nan"),
    ({"train.optimizer": "adam"}, "adamw, lamb, muon. Received: train.optimizer=adam"),
    ({"train.schedule": "liner"}, "inverse_sqrt, wsd. Received: train.schedule=liner"),
    (
        {"train.schedule": "wsd", "train.warmup_fraction": 0.5, "train.decay_fraction": 0.6},
        "must fit into the run. Received: train.warmup_fraction=0.5, train.decay_fraction=0.6",
    ),
    ({"train.precision": "float16"}, "float32, mixed_bfloat16"),
    ({"train.warmup_fraction": 1.0}, "train.warmup_fraction=1.0"),
    ({"train.seed": -1}, "train.seed=-1"),
    ({"eval.batch_size": 0}, "eval.batch_size=0"),
    ({"eval.limit": 0}, "eval.limit=0"),
    ({"checkpoint.every": 0}, "checkpoint.every=0"),
    ({"model.size": "huge"}, "tiny, mini, small.*model.size=huge"),
    ({"model.num_heads": 3}, "hidden_dim=16, num_heads=3"),
    ({"model.activation": "gellu"}, "gellu"),
    ({"model.dropout": 1.0}, "model.dropout=1.0"),
    ({"pretrained": "{bad}/nowhere"}, "folder .*nowhere does not exist"),
    (
        {"pretrained": "{pretrained}", "data.vocab": "{bad}/vocab.txt", "model": None},
        "data.vocab must be the vocabulary of the pretrained model",
    ),
    (
        {"pretrained": "{pretrained}", "model.hidden_dim": 32},
        "hidden_dim=32 differs.*hidden_dim=16",
    ),
    ({"pretrained": "{pretrained}", "data.lowercase": False}, "data.lowercase=False"),
    ({"pretrained": "{pretrained}", "data.length": 65}, "data.length=65 exceeds.*64 positions"),
]

FINETUNING = [
    ({"data.train": "{texts}/nowhere.tsv"}, "nowhere.tsv"),
    ({"data.train": None}, "data.train=None"),
    ({"data.train": "{bad}/empty.txt", "data.format": "tsv"}, "empty.txt"),
    ({"data.text": "txt"}, "txt.*text|text.*txt"),
    ({"data.label": "lable"}, "lable"),
    ({"data.label": None}, "data.label=None"),
    ({"data.text_pair": "second"}, "second"),
    ({"data.validation": "{bad}/label.tsv"}, "'godo' at .*label.tsv.*3.*Did you mean good"),
    ({"data.text": None}, "data.text=None"),
    (
        {"data.train": "{bad}/one_class.tsv"},
        "two classes, but all 2 labels are 'good'.*one_class.tsv",
    ),
    ({"data.regression": True}, "must be finite numbers"),
    ({"data.task": "sst3"}, "sst3"),
    ({"data.length": 2}, "length=2"),
    ({"pretrained": "{bad}/nowhere"}, "nowhere"),
    ({"train.epochs": 0.0}, "train.epochs=0"),
    ({"eval.batch_size": 0}, "eval.batch_size=0"),
    ({"data.length": 65, "pretrained": "{pretrained}"}, "data.length=65 exceeds.*64 positions"),
]


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Folder of invalid files."""
    folder = tmp_path_factory.mktemp("bad")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "empty.txt").write_text("")
    (folder / "latin1.txt").write_bytes("one.\ntwo.\ncaf\xe9.\nfour.\n".encode("latin-1"))
    (folder / "single.txt").write_text("bas ben.\n")
    (folder / "vocab.txt").write_text("\n".join([*specials, "bas", "ben"]) + "\n")
    (folder / "no_mask.txt").write_text("\n".join([*specials[:4], "bas"]) + "\n")
    (folder / "twice.txt").write_text("\n".join([*specials, "bas", "bas"]) + "\n")
    (folder / "label.tsv").write_text("text\tlabel\nbas\tgood\nben\tgodo\n")
    (folder / "one_class.tsv").write_text("text\tlabel\nbas\tgood\nben\tgood\n")
    return folder


def _config(defaults, fields, **folders):
    config = defaults()
    for name, value in fields.items():
        *parents, last = name.split(".")
        place = config
        for parent in parents:
            place = place[parent]
        if last == "model":
            place.model = defaults().model
        elif isinstance(value, str):
            place[last] = value.format(**folders)
        else:
            place[last] = value
    return config


def _assert_refused(job, config, message, workdir):
    with pytest.raises(UserError) as error:
        job(config, workdir=str(workdir))
    assert re.search(message, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)
    assert not workdir.exists()


@pytest.mark.parametrize(("fields", "message"), PRETRAINING, ids=str)
def test_invalid_pretraining_is_an_error(fields, message, texts, bad, pretrained, tmp_path):
    good = {**TINY, "data.train": "{texts}/train.txt", "data.validation": "{texts}/valid.txt"}
    config = _config(
        pretraining_defaults, {**good, **fields}, texts=texts, bad=bad, pretrained=pretrained
    )
    _assert_refused(pretrain, config, message, tmp_path / "run")


@pytest.mark.parametrize(("fields", "message"), FINETUNING, ids=str)
def test_invalid_finetuning_is_an_error(fields, message, texts, bad, pretrained, tmp_path):
    good = {
        "data.train": "{texts}/train.tsv",
        "data.validation": "{texts}/valid.tsv",
        "data.text": "text",
        "data.label": "label",
        "data.length": 32,
        "data.vocab_size": 300,
    }
    config = _config(
        finetuning_defaults, {**good, **fields}, texts=texts, bad=bad, pretrained=pretrained
    )
    _assert_refused(finetune, config, message, tmp_path / "run")


def test_after_a_mistake_the_corrected_call_trains(texts, bad, tmp_path):
    fields = {**TINY, "data.train": "{bad}/latin1.txt", "train.steps": 2}
    config = _config(pretraining_defaults, fields, bad=bad)
    (tmp_path / "run").mkdir()  # an existing empty folder is not removed
    with pytest.raises(UserError, match="latin1"):
        pretrain(config, workdir=str(tmp_path / "run"))
    assert list((tmp_path / "run").iterdir()) == []
    config.data.on_bad_text = "skip"
    assert pretrain(config, workdir=str(tmp_path / "run"))["steps"] == 2
    config.data.train = str(texts / "train.txt")
    with pytest.raises(UserError, match="cannot change data.train..*latin1.txt$"):
        pretrain(config, workdir=str(tmp_path / "run"))


@pytest.fixture(scope="module")
def three_steps(texts, tmp_path_factory):
    """A config, and the workdir of a run of 3 steps with it."""
    fields = {
        **TINY,
        "data.train": "{texts}/train.txt",
        "train.steps": 3,
        "data.validation": "{texts}/valid.txt",
    }
    config = _config(pretraining_defaults, fields, texts=texts)
    workdir = tmp_path_factory.mktemp("three") / "run"
    pretrain(config, workdir=str(workdir))
    return config, workdir


@pytest.fixture
def trained(three_steps, tmp_path):
    """Copies of the config and the workdir."""
    config, workdir = three_steps
    shutil.copytree(workdir, tmp_path / "run")
    return config.copy_and_resolve_references(), tmp_path / "run"


@pytest.mark.slow
def test_a_resumed_run_may_change_its_length_evaluation_and_checkpoints(trained):
    config, workdir = trained
    for field, value in (
        ("train.seed", 1),
        ("model.dropout", 0.3),
        ("data.length", 30),
        ("train.learning_rate", 0.5),
        ("train.jit", True),
    ):
        other = config.copy_and_resolve_references()
        other.update_from_flattened_dict({field: value})
        with pytest.raises(UserError, match=f"cannot change {field}..*Received: {field}={value}"):
            pretrain(other, workdir=str(workdir))
    config.train.steps = 5
    config.eval.update({"every": 2, "limit": 7, "batch_size": 4})
    config.checkpoint.update({"every": 1, "keep": 1})
    results = pretrain(config, workdir=str(workdir), strategy="mirrored")
    assert results["steps"] == 5
    assert len(list((workdir / "checkpoints").glob("*.npz"))) == 1


def test_a_resumed_run_cannot_change_from_epochs_to_steps():
    old, new = {"steps": None, "epochs": 2.0}, {"steps": 7, "epochs": None}
    with pytest.raises(
        UserError,
        match="cannot change train.epochs. Restore the old value and leave train.steps and "
        "train.minutes unset, or choose .*Received: train.epochs=None, was 2.0",
    ):
        check_same({"train": old}, {"train": new}, declared("classification"))


def test_a_rejected_resumption_changes_nothing(texts, tmp_path):
    shutil.copy(texts / "train.tsv", tmp_path / "train.tsv")
    config = _config(
        finetuning_defaults,
        {
            "data.train": str(tmp_path / "train.tsv"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 16,
            "data.vocab_size": 300,
            "train.steps": 1,
        },
    )
    finetune(config, workdir=str(tmp_path / "run"))
    names = ("labels.json", "vocab.txt", "config.json", "metrics.jsonl", "results.json")
    before = [(tmp_path / "run" / name).read_bytes() for name in names]
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("tin\tugly\n")
    config.train.steps = 2
    with pytest.raises(
        UserError, match="data have changed since the run started: .*train.tsv. Restore"
    ):
        finetune(config, workdir=str(tmp_path / "run"))
    assert [(tmp_path / "run" / name).read_bytes() for name in names] == before


def test_without_a_complete_checkpoint_a_run_starts_again_only_in_an_empty_folder(trained):
    config, workdir = trained
    before = json.loads((workdir / "results.json").read_text())["weights_sha256"]
    for path in (workdir / "checkpoints").glob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    left = sorted(path.name for path in (workdir / "checkpoints").iterdir())
    with pytest.raises(UserError, match="are damaged. Remove the folder to train"):
        pretrain(config, workdir=str(workdir))
    assert sorted(path.name for path in (workdir / "checkpoints").iterdir()) == left
    shutil.rmtree(workdir / "checkpoints")
    assert pretrain(config, workdir=str(workdir))["weights_sha256"] == before


def test_without_the_index_of_checkpoints_a_run_keeps_its_fields(trained):
    config, workdir = trained
    (workdir / "checkpoints/index.json").unlink()
    config.train.seed = 1
    with pytest.raises(UserError, match="cannot change train.seed"):
        pretrain(config, workdir=str(workdir))
    (workdir / "config.json").unlink()
    with pytest.raises(UserError, match="has checkpoints, but no config.json"):
        pretrain(config, workdir=str(workdir))


def test_pretrained_weights_are_required_only_at_the_start(trained, texts, tmp_path):
    _, start = trained
    shutil.copy(start / "vocab.txt", tmp_path / "vocab.txt")
    longer = {
        "data.length": 64,
        "train.batch_size": 2,
        "train.accumulate": 1,
        "train.steps": 1,
        "train.learning_rate": 1e-9,
    }
    config = _config(
        pretraining_defaults,
        {
            "data.train": "{texts}/valid.txt",
            "data.format": "lines",
            "data.vocab": str(tmp_path / "vocab.txt"),
            **longer,
        },
        texts=texts,
    )
    found = pretrain(config, tmp_path / "longer", start)
    assert found["steps"] == 1
    before, after = weights(start, 3), weights(tmp_path / "longer", 1)
    assert set(before) == set(after)
    for name in before:
        if name.startswith("model/bert_"):
            np.testing.assert_allclose(before[name], after[name], atol=1e-7, err_msg=name)
    shutil.rmtree(start)
    (tmp_path / "vocab.txt").unlink()
    config.train.steps = 2
    assert pretrain(config, tmp_path / "longer", start)["steps"] == 2


def test_another_vocabulary_of_the_same_size_is_an_error(trained):
    _, workdir = trained
    lines = (workdir / "vocab.txt").read_text().splitlines()
    lines[-2:] = lines[:-3:-1]
    (workdir / "vocab.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match="vocab.txt has changed since the run"):
        read_ready(workdir)


def test_damaged_files_of_a_workdir_are_named(trained):
    config, workdir = trained
    for name, content, message in (
        ("config.json", "{", "config.json must be JSON"),
        ("config.json", "[1]", "config.json must be a JSON object"),
        ("vocab.txt", "[PAD]\n", "vocab.txt has changed since the run"),
        ("vocab.txt", "", "vocab.txt has changed since the run"),
    ):
        whole = (workdir / name).read_bytes()
        (workdir / name).write_text(content)
        with pytest.raises(UserError, match=message):
            pretrain(config, workdir=str(workdir))
        with pytest.raises(UserError, match=message):
            load(workdir)
        (workdir / name).write_bytes(whole)
    assert pretrain(config, workdir=str(workdir))["steps"] == 3


def test_two_runs_cannot_share_a_workdir(trained):
    config, workdir = trained
    first = Workdir(workdir)
    first.lock()
    with pytest.raises(
        UserError, match=f"Only one run at a time.*in use by process {os.getpid()} on"
    ):
        pretrain(config, workdir=str(workdir))
    first.unlock()
    pretrain(config, workdir=str(workdir))


def test_a_workdir_of_another_kind_or_a_file_is_an_error(trained, texts, tmp_path):
    _, workdir = trained
    config = _config(finetuning_defaults, {"data.train": "{texts}/train.tsv"}, texts=texts)
    config.data.update({"text": "text", "label": "label"})
    with pytest.raises(UserError, match="contain a run of finetuning.*a run of pretraining"):
        finetune(config, workdir=str(workdir))
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="workdir"):
            finetune(config, workdir=str(path))
    with pytest.raises(UserError, match="workdir=None"):
        finetune(config)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_diverging_run_names_the_step_and_keeps_the_last_checkpoint(trained, tmp_path):
    config, _ = trained
    config.train.update({"learning_rate": 1e38, "warmup_fraction": 0.0})
    config.checkpoint.every = 1
    with pytest.raises(UserError, match=r"at step (2|3): loss=.*Last checkpoint: step (1|2)"):
        pretrain(config, workdir=str(tmp_path / "diverging"))
    assert list((tmp_path / "diverging" / "checkpoints").glob("*.npz"))
