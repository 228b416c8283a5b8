"""The small files of a workdir, and its model."""

import errno
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import types

import keras
import numpy as np
import pytest

from keras_attn import convert
from keras_attn.defaults import translation_defaults
from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.tasks.classification.labels import read_label_file
from keras_attn.tasks.span_qa.task import read_threshold
from keras_attn.workdir import Workdir, versions
from tests.support.small_workdirs import write_workdir


@pytest.fixture
def workdir(tmp_path):
    found = Workdir(tmp_path / "run")
    found.create()
    return found


def test_a_parent_in_a_path_is_that_of_the_operating_system(tmp_path):
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "below")
    for path, expected in (("missing/../run", "run"), ("link/../other", "elsewhere/other")):
        workdir = Workdir(f"{tmp_path}/{path}")
        workdir.create()
        workdir.lock()
        workdir.unlock()
        assert (tmp_path / expected / "lock").exists()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            {"names": [1, 2], "pairs": False},
            r"names must be a list of strings.*\[1, 2\] in .*labels",
        ),
        ({"names": ["a", None], "pairs": False}, "names must be a list of strings"),
        ({"names": "ab", "pairs": False}, "names must be a list of strings"),
        ({"names": ["a", "\ud800"], "pairs": False}, "names must be a list of strings"),
        (
            {"names": ["a", "b", "a"], "pairs": False},
            "names must be distinct. Received: 'a' twice",
        ),
        ({"names": ["a", "b"], "pairs": 1}, "pairs must be true, false or null. Received: 1"),
        ({"names": ["a", "b"]}, "must contain names and pairs"),
        ([], "labels.json must be a JSON object"),
    ],
)
def test_labels_are_different_strings(workdir, found, message):
    workdir.write_json("labels.json", found)
    with pytest.raises(UserError, match=message):
        read_label_file(workdir)


@pytest.mark.parametrize("kind", ["bert", "gpt2_classifier", "xlnet"])
def test_labels_are_as_many_as_the_model_has_classes(kind, tmp_path):
    folder = write_workdir(kind, tmp_path / kind)
    for names in (["a", "b"], ["a", "b", "c", "d"]):
        Workdir(folder).write_json("labels.json", {"names": names, "pairs": False})
        with pytest.raises(UserError, match=f"The model has 3 classes.*{len(names)} names in"):
            convert.read(folder)


def test_labels_of_classes_and_of_a_regression_are_read(workdir):
    for names, pairs in ((["a", ""], True), ([], None)):
        workdir.write_json("labels.json", {"names": names, "pairs": pairs})
        assert read_label_file(workdir) == {"names": names, "pairs": pairs}


@pytest.mark.parametrize("threshold", ["NaN", "-Infinity", "true", '"1"', "[]"])
def test_a_threshold_is_a_finite_number(workdir, threshold):
    pathlib.Path(workdir / "reading.json").write_text(f'{{"threshold": {threshold}}}')
    with pytest.raises(UserError, match="must contain the threshold"):
        read_threshold(workdir)


def test_numbers_that_are_not_finite_are_null_in_json(workdir):
    value = {"a": [1.0, float("nan"), {"b": float("inf")}], "c": (np.float64("-inf"),), "d": None}
    workdir.write_json("results.json", value)
    wanted = {"a": [1.0, None, {"b": None}], "c": [None], "d": None}
    text = pathlib.Path(workdir / "results.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"data": {"length": "1"}},
            "data.length must be of type int. Received: '1' in .*config.json",
        ),
        ({"data": {"length": True}}, "data.length must be of type int. Received: True"),
        ({"data": {"length": 1.5}}, "data.length must be of type int. Received: 1.5"),
        ({"data": {"length": 0}}, "data.length must be above 0. Received: 0"),
        ({"data": []}, r"data must be an object. Received: \[\]"),
        ({"eval": {"length_penalty": -1}}, "eval.length_penalty must be at least 0"),
        ({"checkpoint": {"average": "x"}}, "checkpoint.average must be of type int. Received: 'x'"),
    ],
)
def test_saved_fields_must_have_their_declared_types(workdir, change, message):
    workdir.start("translation", change, {}, {}, {})
    with pytest.raises(UserError, match=message):
        workdir.read_config()


def test_saved_null_fields_count_as_missing_and_unknown_fields_remain(workdir):
    config = {"data": {"length": None, "vocab": None, "of_another_version": [1]}, "new": 3}
    workdir.start("translation", config, {}, {}, {})
    found = workdir.read_config()["config"]
    assert found["data"]["length"] == translation_defaults().data.length and found["new"] == 3
    assert found["data"]["of_another_version"] == [1] and found["data"]["vocab"] is None


def test_versions_are_those_of_the_backend_and_of_imported_requirements(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    # One lists its modules, one has files alone, whose module has another name.
    modules, files = {"e": "e_module"}, {"f-g": [pathlib.PurePosixPath("gf/__init__.py")]}
    monkeypatch.setattr(
        importlib.metadata,
        "distribution",
        lambda name: types.SimpleNamespace(
            version=f"{name} 1", read_text=lambda file: modules.get(name), files=files.get(name)
        ),
    )
    monkeypatch.setattr(
        importlib.metadata,
        "requires",
        lambda name: ["numpy>=1", 'a-b>1; extra == "x"', "c", "e", "f-g"],
    )
    for name in ("a_b", "torch", "e_module", "gf"):
        monkeypatch.setitem(sys.modules, name, None)
    found = versions()
    assert found["a-b"] == "a-b 1" and found["torch"] == "torch 1"
    assert found.keys() == {"keras_attn", "python", "keras", "numpy", "a-b", "torch", "e", "f-g"}


class _Model:
    """Model whose `save` records the path, or raises an error."""

    def __init__(self, error=None):
        self.error = error

    def save(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(b"model")
        if self.error:
            raise self.error


def test_the_model_is_written_in_the_workdir_and_not_in_the_folder_of_temporary_files(
    workdir, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    model = _Model()
    (tmp_path / "run/model.keras.tmp").write_text("of a killed run")
    workdir.save_model(model)
    assert os.path.dirname(os.path.dirname(model.path)) == workdir.path
    assert os.listdir(workdir.path) == ["model.keras"]
    assert pathlib.Path(workdir / "model.keras").read_bytes() == b"model"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Unable to write (errno = 28, error message = 'No space left on device')"),
    ],
)
def test_a_full_disk_is_reported_and_the_old_model_remains(workdir, error):
    workdir.save_model(_Model())
    with pytest.raises(UserError, match=r"Cannot write .*/run/model.keras: .*MB free on the disk"):
        workdir.save_model(_Model(error))
    assert os.listdir(workdir.path) == ["model.keras"]


def test_a_full_disk_of_temporary_files_is_reported_with_its_path(workdir, tmp_path):
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "tmp/x"))
    with pytest.raises(UserError, match="No space left on device.*on the disk mounted at /"):
        workdir.save_model(_Model(error))


def test_a_saved_model_is_loaded_by_keras_and_replaces_a_link(workdir, tmp_path):
    (tmp_path / "precious").write_text("content")
    for name in ("model.keras", "model.keras.tmp"):
        os.symlink(tmp_path / "precious", workdir / name)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)])
    workdir.save_model(model)
    again = keras.saving.load_model(workdir / "model.keras")
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])
    assert (tmp_path / "precious").read_text() == "content"
    assert not os.path.islink(workdir / "model.keras")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("bert", "vocab.txt"),
        ("gpt2", "merges.txt"),
        ("gpt2", "vocab.json"),
        ("xlnet", "spiece.model"),
        ("translator", "subwords.model"),
    ],
)
def test_a_tokenizer_that_has_changed_since_the_run_is_an_error(tmp_path, kind, name):
    folder = write_workdir(kind, tmp_path / "run")
    workdir = Workdir(folder)
    saved = workdir.read_config()
    workdir.check_tokenizer(saved, (name,))
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=rf"{name} has changed since the run: .*Restore the orig"):
        workdir.check_tokenizer(saved, (name,))
    saved["data_sha256"] = None
    with pytest.raises(UserError, match="config.json has None"):
        workdir.check_tokenizer(saved, (name,))


def test_a_workdir_can_be_on_another_file_system(tmp_path):
    workdir = Workdir(f"ram:/{tmp_path}/run")
    workdir.create()
    workdir.write_json("a.json", {"a": 1})
    assert workdir.read_json("a.json") == {"a": 1}
    workdir.save_model(_Model())
    assert gfile.exists(workdir / "model.keras")
    workdir.remove_if_unused()
    assert gfile.exists(workdir / "a.json")


def test_a_parent_that_is_a_link_to_itself_is_one_line(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(UserError, match="link/run"):
        Workdir(link / "run").create()


def test_a_link_to_a_missing_folder_is_named(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "missing")
    with pytest.raises(UserError, match="link: it is a link to a missing folder"):
        Workdir(link).create()
    with pytest.raises(UserError, match="link does not exist: it is a link to a missing folder"):
        convert.read(link)
