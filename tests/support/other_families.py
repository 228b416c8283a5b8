"""Golden models of GPT-2 and XLNet."""

import json
import pathlib
import shutil

import keras

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
MODELS, KERAS_HUB = GOLDEN / "language_models", GOLDEN / "keras_hub_gpt2"
TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1,234 times.",
    "It's said that a stitch in time saves nine; isn't it?",
    'Naïve café owners — in Zürich — pay £5.00 (or €6) for "good" beans.',
    "the cat sat on the mat and the rat sat on the hat",
]
PAIRS = [
    ("the cat sat", "on the mat"),
    ("It's said", "that nine owners pay in time"),
    ("a", "fox jumps over the lazy dog and the rat"),
]


def copied(name, tmp_path, **fields):
    """A copy of a golden folder with other fields in its config.json."""
    folder = tmp_path / "copy"
    shutil.copytree(MODELS / name, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **fields}))
    return folder


def array(x):
    return keras.ops.convert_to_numpy(x)
