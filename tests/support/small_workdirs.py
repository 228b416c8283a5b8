"""Small workdirs of every family, written without training, and their content."""

import pathlib

import numpy as np

from keras_attn import convert
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import translation_defaults
from keras_attn.models import Transformer
from keras_attn.text.subwords import FILE, Subwords, train_subwords
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.variables import digest, read_values, variables_by_path
from keras_attn.workdir import Workdir

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
SOURCES = {
    "bert": "hugging_face/classifier",
    "reader": "hugging_face/reader",
    "gpt2": "language_models/gpt2",
    "gpt2_classifier": "language_models/gpt2_classifier",
    "xlnet": "language_models/xlnet_classifier",
}
KINDS = (*SOURCES, "translator")
TEXT = "the quick brown fox, 1,234 times"


def write_workdir(kind, folder):
    """Writes the workdir of one of `KINDS`; returns the folder."""
    if kind == "translator":
        _write_translator(folder)
    else:
        convert.convert(
            GOLDEN / SOURCES[kind],
            folder,
            "workdir",
            lowercase=True if kind in ("bert", "reader") else None,
        )
    return folder


def content(folder):
    """Returns the content of a folder: (weights and tokenizer, content of its JSON files)."""
    trained = convert.read(folder)
    weights = digest({path: np.asarray(array) for path, array in trained.weights.items()})
    ids = trained.tokenizer and trained.tokenizer.encode([TEXT])[0].tolist()
    return (weights, ids), (trained.architecture, trained.heads, trained.files.get("labels"))


def _write_translator(folder):
    workdir = Workdir(folder)
    workdir.create()
    subwords = Subwords(train_subwords([TEXT] * 50, 60))
    subwords.write(workdir.path)
    architecture = {
        "vocabulary_size": subwords.vocabulary_size,
        "num_layers": 1,
        "hidden_dim": 8,
        "num_heads": 2,
        "intermediate_dim": 16,
        "max_length": 32,
    }
    model = Transformer(**architecture, seed=0)
    model.build()
    Checkpoints(workdir / "checkpoints").save(
        3, read_values(variables_by_path(model)), {"seconds": 1.0}
    )
    config = translation_defaults().to_dict()
    config.pop("workdir")
    config["data"]["length"] = 32
    workdir.start("translation", config, architecture, {FILE: file_sha256(workdir / FILE)}, {})
