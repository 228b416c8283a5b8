"""Outputs, gradients and written folders equal those of `transformers`, from tiny to base."""

import pathlib
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_attn import convert
from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.families.bert.huggingface import layout_of
from tests.support.environments import ROOT, TRANSFORMERS, environment, run

pytestmark = pytest.mark.slow(minutes=12)  # installs packages

SIDE = pathlib.Path(__file__).with_name("transformers_side.py")
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
FOLDERS = [GOLDEN / name for name in ("hugging_face", "language_models", "encoders")]


def test_models_of_transformers_equal_ours(tmp_path):
    import tensorflow as tf

    python = environment("transformers", TRANSFORMERS)
    run([python, SIDE, "make", tmp_path], ROOT)
    inputs = dict(np.load(tmp_path / "inputs.npz"))
    inputs = {name: value.astype("int32") for name, value in inputs.items()}
    inputs["mask_weights"] = np.ones((2, 4), np.float32)
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "b",
        *(f"piece{number}" for number in range(30522 - 7)),
    ]
    for name in ("tiny", "base"):
        (tmp_path / name / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        saved = read_ready(tmp_path / name, lowercase=True)
        model = saved.make_model()
        with tf.GradientTape() as tape:
            outputs = model(inputs)
            loss = model.compute_loss(x=inputs, y_pred=outputs)
        variables = {v.path.split("/", 1)[1]: v for v in model.trainable_variables}
        gradients = tape.gradient(loss, [v.value for v in variables.values()])
        expected = np.load(tmp_path / f"{name}.npz")
        np.testing.assert_allclose(loss, expected["loss"], 1e-5)
        for key in ("mlm_logits", "nsp_logits"):
            np.testing.assert_allclose(outputs[key], expected[key], 1e-5, 1e-5, err_msg=key)
        theirs = {
            key.removeprefix("gradients/"): expected[key]
            for key in expected
            if key.startswith("gradients/")
        }
        header = {key: (value.shape, "float32") for key, value in theirs.items()}
        turned = Tensors(name, header, theirs.get).take(layout_of(saved))
        for path, gradient in zip(variables, gradients, strict=True):
            found = tf.convert_to_tensor(gradient).numpy()
            np.testing.assert_allclose(found, turned[path], 1e-5, 1e-5, err_msg=path)
        convert.convert(tmp_path / name, tmp_path / f"{name}-run", lowercase=True)
        convert.convert(tmp_path / f"{name}-run", tmp_path / f"{name}-back", "huggingface")
        back = load_file(tmp_path / f"{name}-back" / "model.safetensors")
        there = {}
        for part in sorted((tmp_path / name).glob("*.safetensors")):
            there |= load_file(part)
        assert back.keys() == there.keys()
        for key, value in there.items():
            assert back[key].tobytes() == value.tobytes(), key
    for source in (path for folder in FOLDERS for path in folder.iterdir()):
        if source.is_dir():
            convert.convert(source, tmp_path / "runs" / source.name)
            convert.convert(
                tmp_path / "runs" / source.name, tmp_path / "golden" / source.name, "huggingface"
            )
    run([python, SIDE, "check", tmp_path], ROOT)


def test_the_command_of_a_message_converts_pickles(tmp_path):
    python, folder = environment("transformers", TRANSFORMERS), tmp_path / "model"
    shutil.copytree(GOLDEN / "hugging_face/masked_lm", folder)
    expected = read_ready(folder).sha256
    run([python, SIDE, "pickle", folder], ROOT)
    with pytest.raises(UserError, match="is a pickle") as error:
        read_ready(folder)
    _, code = re.fullmatch(r"(.*): python -c \"(.*)\"", str(error.value)).groups()
    run([python, "-c", code], folder)
    assert read_ready(folder).sha256 == expected
