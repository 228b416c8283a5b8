"""Exports of a converted classifier, and errors of exports."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_attn import load
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.ops.kernels import tensorflow_graphs as graphs
from keras_attn.tasks.classification.export import Exported

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CLASSIFIER = str(GOLDEN / "hugging_face" / "classifier")
XLNET = str(GOLDEN / "language_models" / "xlnet_classifier")
MODERNBERT = str(GOLDEN / "modernbert" / "classifier")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "classifier, pairs",
    [
        (classifier, pairs)
        for classifier in (CLASSIFIER, XLNET, MODERNBERT)
        for pairs in (None, True)
    ],
)
def test_a_converted_model_takes_pairs_or_single_texts_as_requested(tmp_path, classifier, pairs):
    output = str(tmp_path / "served" / "1")
    left = tmp_path / "served" / f"1.{'0' * 32}.partial"  # of a killed process
    (left / "variables").mkdir(parents=True)
    export(classifier, output, pairs=pairs)
    texts = ["a film", "", "Another “one”, for £1,234, and a longer öne " * 9]
    given = [texts, texts[::-1]] if pairs else [texts]
    loaded = tf.saved_model.load(output)
    found = loaded.serve(*map(tf.constant, given))
    expected = load(classifier).probabilities(*given)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    assert [path.name for path in (tmp_path / "served").iterdir()] == ["1"]


@pytest.mark.thorough
def test_an_export_contains_no_code_for_this_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "WORTH_COMPILING", 1)
    output = tmp_path / "1"
    export(CLASSIFIER, str(output))
    saved = saved_model_pb2.SavedModel.FromString((output / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    assert functions
    assert not [f.signature.name for f in functions if f.attr["_XlaMustCompile"].b]


def test_an_empty_request_has_an_empty_response():
    for pairs in (False, True):
        serve = Exported(load(CLASSIFIER), pairs).serve
        found = serve(*[tf.constant([], tf.string)] * (1 + pairs))
        assert found["probabilities"].shape[0] == 0 and found["label"].shape == (0,)


@pytest.mark.parametrize(
    "error, expected",
    [
        (tf.errors.ResourceExhaustedError(None, None, "No space left on device"), UserError),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), tf.errors.ResourceExhaustedError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_failed_export_leaves_no_files(tmp_path, monkeypatch, error, expected):
    def save(module, folder, **rest):
        assert pathlib.Path(folder).is_dir()
        raise error

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(expected):
        export(CLASSIFIER, str(tmp_path / "served" / "1"))
    assert list((tmp_path / "served").iterdir()) == []


def test_an_export_that_finishes_second_leaves_no_files(tmp_path, monkeypatch):
    def save(module, folder, **rest):
        (tmp_path / "1" / "variables").mkdir(parents=True)

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(UserError, match="Cannot write the folder"):
        export(CLASSIFIER, str(tmp_path / "1"))
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_gpt2_is_not_exported(tmp_path):
    with pytest.raises(UserError, match="does not run inside a SavedModel.*BytePairTokenizer"):
        export(str(GOLDEN / "language_models" / "gpt2_classifier"), str(tmp_path / "1"))


def test_an_export_requires_a_new_folder(tmp_path):
    with pytest.raises(UserError, match="The output folder must not exist"):
        export(CLASSIFIER, str(tmp_path))
