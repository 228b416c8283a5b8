"""Small synthetic data, and one pretrained and one finetuned workdir for all tests."""

import pytest

from tests.support.started_commands import TINY, config_flags, run, write_corpus, write_table


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_corpus(folder / "train.txt", 1, 60)
    write_corpus(folder / "valid.txt", 2, 13)
    write_table(folder / "train.tsv", 3, 203)
    write_table(folder / "valid.tsv", 4, 45)
    return folder


@pytest.fixture(scope="session")
def corpus(texts):
    """Flags of a small pretraining run."""
    return config_flags(
        **TINY, **{"data.train": texts / "train.txt", "data.validation": texts / "valid.txt"}
    )


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory, corpus):
    """A workdir of 20 steps on one device without dropout."""
    workdir = tmp_path_factory.mktemp("runs") / "pretrained"
    run("pretrain", f"--workdir={workdir}", *corpus, *config_flags(**{"model.dropout": 0.0}))
    return workdir


@pytest.fixture(scope="session")
def labelled(texts):
    """Flags of a small finetuning run."""
    return config_flags(
        **{
            "data.train": texts / "train.tsv",
            "data.validation": texts / "valid.tsv",
            "data.text": "text",
            "data.label": "label",
            "data.length": 32,
            "train.epochs": 12,
            "train.learning_rate": 0.02,
            "train.batch_size": 16,
            "eval.batch_size": 16,
            "train.accumulate": 2,
        }
    )


@pytest.fixture(scope="session")
def finetuned(tmp_path_factory, pretrained, labelled):
    """A classifier of good and bad texts, trained by the command."""
    workdir = tmp_path_factory.mktemp("runs") / "finetuned"
    run("finetune", f"--pretrained={pretrained}", f"--workdir={workdir}", *labelled)
    return workdir
