"""Saved configs: missing fields have their defaults."""

import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest

from keras_attn import load
from keras_attn.convert import convert
from keras_attn.defaults import declared, default_config
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.embed_files import embed_texts
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file
from keras_attn.registry import FAMILIES, TASKS, family_and_task, kind_of
from keras_attn.saved_config import changed_fields, check_same, complete, fields_to_keep
from keras_attn.workdir import Workdir
from tests.support.quick import quick

GOLDEN = pathlib.Path(__file__).parent / "golden"


KINDS = [
    kind_of(family, task)
    for family in FAMILIES
    for task in FAMILIES[family].task_models
    if TASKS.fields(task).command
]


@pytest.mark.parametrize("kind", KINDS)
def test_each_missing_field_has_its_default(kind, tmp_path):
    workdir = Workdir(tmp_path)
    workdir.start(kind, {"data": {"length": 7}, "extra": 1}, {}, {}, {})
    found = workdir.read_config()["config"]
    assert found["data"].pop("length") == 7 and found.pop("extra") == 1
    family, task = family_and_task(kind)
    wanted = default_config(task, family).to_dict()
    del wanted["workdir"], wanted["data"]["length"]
    if "lowercase" in wanted["data"]:
        wanted["data"]["lowercase"] = FAMILIES[family].tokenizers.lowercase
    if "initial_embeddings" in wanted["model"]:  # later than the first workdirs
        wanted["model"]["initial_embeddings"] = "random"
    assert found == wanted


def test_existing_fields_are_not_changed():
    given = {"data": {"length": None, "train": {"a": 1}}, "train": 3}
    found = complete(given, "finetuning")
    assert found["data"]["length"] is None and found["data"]["train"] == {"a": 1}
    assert found["train"] == 3 and given == {
        "data": {"length": None, "train": {"a": 1}},
        "train": 3,
    }
    assert complete({"a": 1}, "of a later version") == {"a": 1}


def test_an_invalid_config_is_an_error(tmp_path):
    workdir = Workdir(tmp_path)
    for config, kind in ((3, "finetuning"), ({}, ["finetuning"])):
        workdir.start(kind, config, {}, {}, {})
        with pytest.raises(UserError, match="config.json is not the config of a run"):
            workdir.read_config()


CLASSIFIERS = [
    "hugging_face/classifier",
    "language_models/gpt2_classifier",
    "language_models/xlnet_classifier",
]
FIELDS = [("length", "text", "lowercase", "end_mark"), ("end_mark",)]


@pytest.mark.parametrize(
    "name, fields",
    quick(
        list(itertools.product(CLASSIFIERS, FIELDS)),
        (CLASSIFIERS[1], FIELDS[1]),
    ),
)
def test_a_classifier_predicts_without_the_fields_that_have_their_defaults(name, fields, tmp_path):
    convert(GOLDEN / name, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "old")
    path = tmp_path / "old/config.json"
    saved = json.loads(path.read_text())
    data = saved["config"]["data"]
    kept = {field: data[field] for field in fields if field in data}
    path.write_text(json.dumps({**saved, "config": {"data": kept}}))
    label = load(tmp_path / "whole").labels[0]
    (tmp_path / "x.csv").write_text(f"text,label\nthe cat sat,{label}\na b,{label}\n")
    for folder in ("whole", "old"):
        predict_file(
            str(tmp_path / folder), str(tmp_path / "x.csv"), str(tmp_path / f"{folder}.tsv")
        )
        embed_texts(str(tmp_path / folder), ["the cat sat"], str(tmp_path / f"{folder}.npy"))
    assert (tmp_path / "old.tsv").read_text() == (tmp_path / "whole.tsv").read_text()
    np.testing.assert_array_equal(np.load(tmp_path / "old.npy"), np.load(tmp_path / "whole.npy"))
    found, wanted = (
        evaluate(str(tmp_path / folder), str(tmp_path / "x.csv")) for folder in ("old", "whole")
    )
    assert found == wanted
    if "gpt2" not in name:
        export(str(tmp_path / "old"), str(tmp_path / "exported"))


def test_a_resumed_run_may_have_other_micro_batches():
    old, known = {"train": {"accumulate": 1, "batch_size": 8}}, declared("masked_lm")
    check_same(old, {"train": {"accumulate": 4, "batch_size": 8}}, known)
    with pytest.raises(UserError, match="cannot change train.batch_size"):
        check_same(old, {"train": {"accumulate": 1, "batch_size": 4}}, known)
    old, new = ({"train": {"batch_size": n, "seed": n}, "data": {"length": 9}} for n in (8, 4))
    message = (
        "cannot change train.batch_size and train.seed. Restore the old values, or .*"
        "Received: train.batch_size=4, was 8; train.seed=4, was 8$"
    )
    with pytest.raises(UserError, match=message):
        check_same(old, new, known)


def test_changed_fields_have_both_values():
    known = declared("masked_lm")
    old, new = ({"train": {"steps": n, "seed": 1}} for n in (4, 8))
    assert changed_fields(old, new, known) == {"train.steps": (4, 8)}
    assert changed_fields(old, old, known) == {}


def test_a_resumed_run_may_change_the_fields_that_declare_it():
    def free(task):
        return {name for name, field in declared(task).items() if field.resume == "any"}

    assert free("masked_lm") == {
        "train.steps",
        "train.accumulate",
        "train.remat",
        "eval.every",
        "eval.batch_size",
        "eval.limit",
        "checkpoint.every",
        "checkpoint.keep",
    }
    assert free("classification") == free("masked_lm") - {"eval.limit"} | {
        "eval.patience",
        "eval.report",
    }
    assert free("translation") == free("masked_lm") - {"eval.limit"} | {
        "eval.patience",
        "eval.beam",
        "eval.length_penalty",
        "eval.lowercase",
        "eval.tokenize",
        "checkpoint.average",
    }


def test_a_resumed_run_keeps_chosen_and_initial_values():
    known = declared("masked_lm")
    old = {
        "train": {"steps": 5, "accumulate": 2},
        "data": {"segments": "next_sentence"},
        "model": {"initial_embeddings": "random"},
    }
    new = {
        "train": {"steps": 7, "accumulate": None},
        "data": {"segments": None},
        "model": {"initial_embeddings": "cooccurrences"},
    }
    assert fields_to_keep(old, new, known) == {
        "train.accumulate": 2,
        "data.segments": "next_sentence",
        "model.initial_embeddings": "random",
    }


def test_byte_pairs_are_not_lower_cased(tmp_path):
    convert(GOLDEN / "language_models/gpt2_classifier", tmp_path / "model")
    path = tmp_path / "model/config.json"
    saved = json.loads(path.read_text())
    saved["config"]["data"]["lowercase"] = True
    path.write_text(json.dumps(saved))
    with pytest.raises(UserError, match="lowercase must be False for the tokenizer of GPT-2"):
        load(tmp_path / "model")
