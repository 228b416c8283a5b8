"""Inputs of commands: pipes are read like files, and truncated texts are counted."""

import io
import json
import os
import pathlib
import sys

import numpy as np
import pytest

from keras_attn.data.sources import streams
from keras_attn.data.sources.files import file_sha256
from keras_attn.errors import UserError
from keras_attn.inference.embed_files import embed_file, embed_texts
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.generate_files import generate_texts
from keras_attn.inference.loading import load
from keras_attn.inference.predict_files import predict_file, predict_texts
from keras_attn.inference.translate_files import translate_file
from keras_attn.models import Transformer
from keras_attn.text.subwords import Subwords, train_subwords
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.variables import variables_by_path
from keras_attn.workdir import Workdir
from tests.support.quick import quick

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CLASSIFIER = str(GOLDEN / "hugging_face/classifier")
READER = str(GOLDEN / "hugging_face/reader")
LANGUAGE_MODEL = str(GOLDEN / "language_models/gpt2")
TEXT = "the cat sat\non the mat\n"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """Workdir of a translator with its initial weights."""
    workdir = Workdir(tmp_path_factory.mktemp("translator"))
    with open(workdir / "subwords.model", "wb") as file:
        file.write(train_subwords(TEXT.splitlines() * 20, 40))
    size = Subwords.read(workdir / "subwords.model").vocabulary_size
    model = Transformer(
        vocabulary_size=size, num_layers=1, hidden_dim=8, num_heads=1, intermediate_dim=8
    )
    model.build()
    Checkpoints(workdir / "checkpoints").save(
        0, {path: v.numpy() for path, v in variables_by_path(model).items()}, {}
    )
    names = ("vocabulary_size", "num_layers", "hidden_dim", "num_heads", "intermediate_dim")
    architecture = {name: model.get_config()[name] for name in names}
    # The config has no fields, so all have their defaults.
    workdir.start(
        "translation",
        {},
        architecture,
        {"subwords.model": file_sha256(workdir / "subwords.model")},
        {},
    )
    return workdir.path


def _commands(translator):
    return {
        "predict": lambda source, output: predict_file(CLASSIFIER, source, output, format="lines"),
        "embed": lambda source, output: embed_file(
            CLASSIFIER, source, output=output.replace("txt", "jsonl"), format="lines"
        ),
        "generate": lambda source, output: generate_texts(
            LANGUAGE_MODEL, source, output.replace("txt", "jsonl"), max_tokens=2
        ),
        "translate": lambda source, output: translate_file(translator, source, output),
    }


@pytest.mark.parametrize(
    ("name", "ends"),
    quick(
        [
            *(("predict", end) for end in ("\n", "\r\n", "\r")),
            *((name, "\r") for name in ("embed", "generate", "translate")),
        ],
        ("predict", "\r\n"),
    ),
)
def test_a_pipe_gives_what_the_file_does(name, ends, translator, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_copies", {})
    run = _commands(translator)[name]
    output = str(tmp_path / ("out.tsv" if name == "predict" else "out.txt"))
    written = pathlib.Path(
        output.replace("txt", "jsonl") if name in ("embed", "generate") else output
    )
    (tmp_path / "lines.txt").write_text(TEXT)
    run(str(tmp_path / "lines.txt"), output)
    wanted = written.read_bytes()
    assert wanted.count(b"\n") == 2 + (name == "predict")

    def found(source):
        run(source, output)
        return written.read_bytes()

    content = TEXT.replace("\n", ends).encode()
    (tmp_path / "other.txt").write_bytes(content)
    assert found(str(tmp_path / "other.txt")) == wanted
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert found("-") == wanted
    end, begin = os.pipe()
    os.write(begin, content)
    os.close(begin)
    assert found(f"/dev/fd/{end}") == wanted


def test_a_pipe_without_a_name_has_the_format_of_the_training_file(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_copies", {})
    classifier = str(GOLDEN / "workdirs_0_1/bert_classifier")  # trained on a CSV
    content = 'id,text\n1,the cat\n2,"a dog, too"\n'
    (tmp_path / "x.csv").write_text(content)
    written = tmp_path / "y.tsv"
    predict_file(classifier, str(tmp_path / "x.csv"), str(written))
    wanted = written.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    predict_file(classifier, "-", str(written))
    assert written.read_bytes() == wanted and wanted.count(b"\n") == 3


def test_truncated_texts_are_counted(tmp_path, capsys):
    long, short = "the cat " * 300, "the cat"
    (tmp_path / "x.csv").write_text(f"text,label\n{long},0\n{short},0\n{long},0\n")
    length = load(CLASSIFIER).max_length
    warning = f"warning: 2 texts were truncated to the maximum length of {length} tokens"
    embed_texts(CLASSIFIER, [long, short, long], str(tmp_path / "x.npy"))
    assert warning in capsys.readouterr().err
    found = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(found[0], found[2])
    embed_file(CLASSIFIER, str(tmp_path / "x.csv"), output=str(tmp_path / "x.npy"))
    assert warning in capsys.readouterr().err
    predict_file(CLASSIFIER, str(tmp_path / "x.csv"), str(tmp_path / "y.csv"))
    assert warning in capsys.readouterr().err
    predict_texts(CLASSIFIER, [long, short], output=str(tmp_path / "y.csv"))
    assert warning.replace("2 texts were", "1 text was") in capsys.readouterr().err
    predict_texts(CLASSIFIER, [short], output=str(tmp_path / "y.csv"))
    assert "warning" not in capsys.readouterr().err
    label = load(CLASSIFIER).labels[0]
    (tmp_path / "x.csv").write_text(f"text,label\n{long},{label}\n{short},{label}\n")
    evaluate(CLASSIFIER, str(tmp_path / "x.csv"))
    assert warning.replace("2 texts were", "1 text was") in capsys.readouterr().err


def test_truncated_questions_are_counted(tmp_path, capsys):
    model = load(READER)
    most = model.config["data"]["max_question"]
    question = {"id": "1", "question": "the " * (most + 1), "answers": []}
    (tmp_path / "x.json").write_text(
        json.dumps({"data": [{"paragraphs": [{"context": "the cat sat", "qas": [question]}]}]})
    )
    predict_file(READER, str(tmp_path / "x.json"), str(tmp_path / "y.json"))
    assert f"1 text was truncated to the maximum length of {most} tokens" in capsys.readouterr().err


@pytest.mark.parametrize("folder", [None, ""])
def test_a_workdir_is_required(folder):
    for read in (
        lambda: predict_texts(folder, ["a"]),
        lambda: embed_texts(folder, ["a"]),
        lambda: load(folder),
    ):
        with pytest.raises(UserError, match="folder with a model is required"):
            read()
