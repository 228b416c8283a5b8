"""A small trained XLNet, shared by the tests of training and of generation."""

import pytest

from keras_attn import pretrain
from tests.support.small_language_models import config_of, write_texts

SENTENCES = [
    "the cat sees a dog",
    "a dog hears the bird",
    "the bird sees the cat",
    "one, two and 3,000 cats",
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("permutations")
    write_texts(folder / "train.txt", 400, 0, SENTENCES)
    write_texts(folder / "valid.txt", 30, 1, SENTENCES)
    return folder


@pytest.fixture(scope="session")
def trained(corpus):
    """The workdir of a run, and its results."""
    fields = {"train.steps": 600, "train.batch_size": 32, "eval.every": 200}
    config = config_of(corpus, "sentencepiece", **fields)
    return corpus / "run", pretrain(config, workdir=str(corpus / "run"))
