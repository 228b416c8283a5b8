"""Folders of sentence-transformers from the golden files."""

import json
import pathlib
import shutil

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
NAMES = ("cls", "max", "dense", "several", "prompts", "mean")
QUERY = "b a d: "
TEXTS = ["a fog", "", "Bald Eagle", "cab a cab", "c d e f g h i j k l m n o p q r s t u v w"]
# The prompts of the golden embeddings.
PROMPTS = {"cls": (None, "query", ""), "prompts": (None, "query", QUERY)}


def make_folder(folder, name):
    """Writes a folder of sentence-transformers with the golden files of a model."""
    shutil.copytree(GOLDEN / "hugging_face/encoder", folder)
    shutil.copytree(GOLDEN / "sentence_transformers" / name, folder, dirs_exist_ok=True)
    return folder


def edit(path, **fields):
    """Changes fields of a JSON file; removes those that are `...`."""
    found = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not ...}))
