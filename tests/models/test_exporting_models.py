"""`model.export(path)` without a signature, to a SavedModel and ONNX, and `tf.saved_model.save`."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attn.models import XLNet
from keras_attn.models.declared_inputs import flat_outputs
from tests.support.every_model import EVERY_MODEL, TASKS, inputs_of, make

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are tested with TensorFlow", allow_module_level=True)

import onnxruntime
import tensorflow as tf
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

_ONNX = {"tensor(int32)": "int32", "tensor(float)": "float32", "tensor(bool)": "bool"}
LABELS = "label", "sample_weight", "mask_ids", "mask_weights", "next_sentence_label"


def most_run_later(*chosen):
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[] if name in chosen else pytest.mark.runs)
            for name in EVERY_MODEL
        ],
    )


def _inputs(name):
    own = EVERY_MODEL[name][0]().INPUTS
    return {key: x for key, x in inputs_of(name).items() if key in own}


def _shorter(inputs):
    """Fewer rows, and one token less where the length is free."""
    inputs = {key: x[:3] for key, x in inputs.items()}
    if "feature_ids" in inputs:
        return inputs
    if "elements" in inputs:
        inputs["label"] = inputs["label"] % 4
    return {key: x if key == "mask_positions" else x[:, :-1] for key, x in inputs.items()}


def _check(model, served, inputs):
    for batch in (inputs, _shorter(inputs)):
        found = served({key: tf.constant(x) for key, x in batch.items()})
        expected = flat_outputs(model(batch))
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(found[key].numpy(), value.numpy(), 1e-4, 1e-5, err_msg=key)


@most_run_later("BertClassifier", "AttentionalFactorizationMachine")
def test_an_exported_model_computes_the_same_of_any_batch_and_length(name, tmp_path):
    model, inputs = make(name)[0], _inputs(name)
    model(inputs)
    model.export(tmp_path / "1", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "1")
    _check(model, loaded.serve, inputs)
    arguments = loaded.signatures["serving_default"].structured_input_signature[1]
    assert all(spec.shape[0] is None for spec in arguments.values())


@most_run_later("BertClassifier")
def test_onnx_runtime_computes_the_same_of_any_batch_and_length(name, tmp_path):
    model, inputs = make(name)[0], _inputs(name)
    model(inputs)
    path = str(tmp_path / "model.onnx")
    model.export(path, format="onnx", verbose=False)
    if name == "XLNetPretrainer":  # a fault of tf2onnx 1.17
        with pytest.raises(Fail, match="ShapeInferenceError"):
            onnxruntime.InferenceSession(path)
        return
    session = onnxruntime.InferenceSession(path)
    kinds = {node.name: node.type for node in session.get_inputs()}
    assert kinds.keys() == inputs.keys()
    for batch in (inputs, _shorter(inputs)):
        expected = flat_outputs(model(batch))
        found = session.run(
            list(expected), {key: batch[key].astype(_ONNX[kinds[key]]) for key in kinds}
        )
        for key, array in zip(expected, found, strict=True):
            np.testing.assert_allclose(array, expected[key], 1e-4, 1e-5, err_msg=key)


@most_run_later("BertClassifier")
def test_tensorflow_saves_it_with_its_signature(name, tmp_path):
    model, inputs = make(name)[0], _inputs(name)
    model(inputs)
    tf.saved_model.save(model, tmp_path / "1")
    loaded = tf.saved_model.load(tmp_path / "1")
    _check(model, lambda batch: loaded.signatures["serving_default"](**batch), inputs)


@pytest.mark.thorough
def test_no_label_is_asked_for_after_fit_nor_after_loading(tmp_path):
    model, data = make("BertClassifier")
    model.compile("sgd", jit_compile=False)
    model.fit(x=data, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.compiled and int(again.optimizer.iterations) == 1
    for number, one in enumerate((model, again)):
        assert set(one.export_specs()) == {"token_ids", "segment_ids", "padding_mask"}
        one.export(tmp_path / str(number), verbose=False)
        loaded = tf.saved_model.load(tmp_path / str(number))
        _check(model, loaded.serve, _inputs("BertClassifier"))


@pytest.mark.thorough
def test_what_was_not_called_takes_its_required_inputs(tmp_path):
    model, inputs = make("AttentiveLSTMClassifier")[0], _inputs("AttentiveLSTMClassifier")
    model.export(tmp_path / "1", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "1")
    _check(model, loaded.serve, {"token_ids": inputs["token_ids"]})


@pytest.mark.thorough
def test_a_memory_goes_into_an_exported_model_and_comes_out(tmp_path):
    model = XLNet(12, 2, 8, 2, memory_length=3, seed=0)
    inputs = _inputs("XLNet")
    inputs["memory"] = [x.numpy() for x in model(inputs)["memory"]]
    expected = model(inputs)
    model.export(tmp_path / "1", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "1")
    found = loaded.serve(tf.nest.map_structure(tf.constant, inputs))
    for layer in range(2):
        np.testing.assert_allclose(found[f"memory_{layer}"], expected["memory"][layer], 1e-5, 1e-6)


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_inputs_are_declared(name):
    model, data = make(name)
    assert set(model.REQUIRED) <= set(model.INPUTS)
    assert set(data) - set(model.INPUTS) <= set(LABELS)
    for key in set(data) & set(model.INPUTS):
        spec = model.input_spec_of(key)
        assert len(spec.shape) == data[key].ndim and spec.dtype == data[key].dtype


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_a_missing_input_is_named(name):
    model, inputs = make(name)[0], _inputs(name)
    for key in model.REQUIRED:
        with pytest.raises(ValueError, match=f"{type(model).__name__}: inputs lack {key}"):
            model({k: x for k, x in inputs.items() if k != key})
    with pytest.raises(ValueError, match="inputs must be a dictionary with .*type ndarray"):
        model(next(iter(inputs.values())))


# Without those whose labels are their tokens, or inputs.
@pytest.mark.parametrize(
    "name", sorted(TASKS.keys() - {"GPT2LanguageModel", "PointerNetwork", "RecurrentLanguageModel"})
)
def test_a_missing_label_is_named(name):
    model, inputs = make(name)[0], _inputs(name)
    missing = "mask_weights" if "Pretrainer" in name else "label"
    with pytest.raises(ValueError, match=f"{name}: losses and metrics require {missing} in the in"):
        model.compute_loss(inputs, y_pred=model(inputs))


@pytest.mark.runs
def test_a_process_that_knows_tensorflow_alone_serves_the_same(tmp_path):
    names = "BertQuestionAnswerer", "LuongSeq2Seq", "PointerGenerator"
    for name in names:
        model, inputs = make(name)[0], _inputs(name)
        np.savez(tmp_path / f"{name}_out.npz", **model(inputs))
        np.savez(tmp_path / f"{name}_in.npz", **inputs)
        model.export(tmp_path / name, verbose=False)
    program = f"""
import numpy as np, sys, tensorflow as tf
for name in {names!r}:
    loaded = tf.saved_model.load(name)
    found = loaded.serve({{k: tf.constant(x) for k, x in np.load(name + "_in.npz").items()}})
    for key, value in np.load(name + "_out.npz").items():
        np.testing.assert_allclose(found[key], value, 1e-5, 1e-6, err_msg=key)
assert "keras_attn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300)
