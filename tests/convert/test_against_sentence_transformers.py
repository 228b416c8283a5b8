"""Folders that we write have the same embeddings in sentence-transformers."""

import pathlib

import numpy as np
import pytest

from keras_attn import convert, load
from tests.support.environments import ROOT, SENTENCE_TRANSFORMERS, environment, run
from tests.support.sentence_transformers_folders import GOLDEN, NAMES, TEXTS, make_folder

pytestmark = pytest.mark.slow(minutes=12)  # installs packages

SIDE = pathlib.Path(__file__).with_name("sentence_transformers_side.py")


def test_sentence_transformers_loads_our_folders_with_equal_embeddings(tmp_path):
    written = tmp_path / "written"
    written.mkdir()
    (written / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    for name in NAMES:
        convert.convert(make_folder(tmp_path / name, name), tmp_path / "runs" / name)
        convert.convert(tmp_path / "runs" / name, written / name, "sentence_transformers")
    others = {"classifier": "hugging_face/classifier", "pre_norm": "workdirs_0_1/bert"}
    for name, source in others.items():
        convert.convert(GOLDEN / source, written / name, "sentence_transformers")
    run([environment("sentence-transformers", SENTENCE_TRANSFORMERS), SIDE, written], ROOT)
    for name in (*NAMES, *others):
        found = np.load(written / f"{name}.npy", allow_pickle=False)
        expected = load(written / name).embed(TEXTS)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=name)
