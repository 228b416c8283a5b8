"""A small trained GPT-2, shared by the tests of training and of generation."""

import pytest

from keras_attn import load, pretrain
from tests.support.small_language_models import config_of, write_texts


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_texts(folder / "train.txt", 400, 0)
    write_texts(folder / "valid.txt", 30, 1)
    return folder


@pytest.fixture(scope="session")
def trained(corpus):
    """The workdir of a run, and its results."""
    config = config_of(corpus, **{"train.steps": 150, "eval.every": 75})
    return corpus / "run", pretrain(config, workdir=str(corpus / "run"))


@pytest.fixture(scope="session")
def generator(trained):
    return load(str(trained[0]))
