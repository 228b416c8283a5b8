"""Files with random values or bytes are read, or rejected in one line."""

import pathlib
import random
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from tests.support.google_folders import google_weights, write_google
from tests.support.strange_files import strange_json

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def strange_bytes(path, draw, first=200):
    """Changes a few of the first bytes, or truncates the file."""
    content = bytearray(path.read_bytes())
    if draw.random() < 0.1:
        content = content[: draw.randrange(len(content))]
    for _ in range(draw.randint(1, 4)):
        if content:
            content[draw.randrange(min(first, len(content)))] = draw.randrange(256)
    path.write_bytes(content)


@pytest.mark.slow
def test_a_thousand_damaged_headers_and_configs_are_rejected_in_one_line_or_read(tmp_path):
    draw, refusals = random.Random(0), 0
    golden = GOLDEN / "hugging_face"
    hub, untied, run = GOLDEN / "keras_hub", golden / "untied", tmp_path / "run"
    convert.convert(golden / "classifier", run)
    google = write_google(tmp_path / "google", google_weights())
    copied = tmp_path / "copied"  # with a copy of the tied embedding matrix
    shutil.copytree(golden / "pretraining", copied)
    arrays = load_file(copied / "model.safetensors")
    save_file(
        {
            **arrays,
            "cls.predictions.decoder.weight": arrays["bert.embeddings.word_embeddings.weight"],
        },
        copied / "model.safetensors",
    )
    kinds = [
        (golden / "pretraining", "config.json", strange_json),
        (golden / "classifier", "config.json", strange_json),
        (golden / "pretraining", "model.safetensors", strange_bytes),
        (
            golden / "pretraining",
            "model.safetensors",
            lambda path, draw: strange_bytes(path, draw, 3000),
        ),
        (golden / "pretraining", "tokenizer.json", strange_json),
        (golden / "pretraining", "tokenizer_config.json", strange_json),
        (untied, "model.safetensors.index.json", strange_json),
        (hub, "config.json", strange_json),
        (hub, "tokenizer.json", strange_json),
        (run, "config.json", strange_json),
        (run, "labels.json", strange_json),
        (run, "checkpoints/step-0.npz", strange_bytes),
        (copied, "model.safetensors", lambda path, draw: strange_bytes(path, draw, 4000)),
        (google, "bert_config.json", strange_json),
        (google, "bert_model.ckpt.index", lambda path, draw: strange_bytes(path, draw, 5000)),
        (google, "bert_model.ckpt.data-00000-of-00001", strange_bytes),
        (hub, "model.weights.h5", lambda path, draw: strange_bytes(path, draw, 3000)),
    ]
    for number in range(1000):
        source, name, change = kinds[number % len(kinds)]
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        change(folder / name, draw)
        try:
            stored = convert.read(folder)
            for weight in stored.weights.values():
                assert np.asarray(weight).shape == weight.shape
            if number % 50 < 2:
                read_ready(folder, lowercase=stored.lowercase is not False).make_model()
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1500, str(error)
            refusals += 1
        shutil.rmtree(folder)
    assert refusals > 400
