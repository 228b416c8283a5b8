"""Output files of commands are complete and never replace an input."""

import io
import os
import pathlib
import sys
import threading
from types import SimpleNamespace

import pytest

from finetune import evaluate
from keras_attn.convert import convert
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.errors import UserError
from keras_attn.inference.embed_files import embed_file
from keras_attn.inference.generate_files import generate_texts
from keras_attn.inference.outputs import opened
from keras_attn.inference.predict_files import predict_file
from keras_attn.io.locks import lock_file

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CLASSIFIER = str(GOLDEN / "hugging_face/classifier")
LANGUAGE_MODEL = str(GOLDEN / "language_models/gpt2")
ROWS = "text\ngreat film\n"


class _Flags(SimpleNamespace):
    """Values of flags; all others are unset."""

    def __getattr__(self, name):
        return None


def _evaluate(_, source, output, flag):
    values = _Flags(workdir=CLASSIFIER, output=output, **{flag: source})
    evaluate.flags = SimpleNamespace(FLAGS=values)
    evaluate.main()


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (predict_file, "x.csv"),
        (lambda *args: embed_file(args[0], args[1], output=args[2]), "x.jsonl"),
        (lambda _, *args: generate_texts(LANGUAGE_MODEL, *args), "x.jsonl"),
        *(
            (lambda *args, flag=flag: _evaluate(*args, flag), "x.json")
            for flag in ("data", "source", "target")
        ),
    ],
    ids=["predict", "embed", "generate", "evaluate", "evaluate_source", "evaluate_target"],
)
@pytest.mark.parametrize("way", ["same", "relative", "link", "glob", "list"])
def test_an_output_must_not_replace_the_input(run, name, way, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "flags", None)
    path = tmp_path / name
    path.write_text(ROWS)
    source, output = str(path), str(path)
    if way == "relative":
        monkeypatch.chdir(tmp_path)
        output = f"../{tmp_path.name}/{name}"
    elif way == "link":
        output = str(tmp_path / f"link{path.suffix}")
        os.symlink(path, output)
    elif way == "glob":
        source = str(tmp_path / f"*{path.suffix}")
    elif way == "list":
        other = tmp_path / f"other{path.suffix}"
        other.write_text(ROWS)
        source = f"{other},{path}"
    with pytest.raises(UserError, match="--output would replace the input"):
        run(CLASSIFIER, source, output)
    assert path.read_text() == ROWS and not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("name", ["config.json", "labels.json", "vocab.txt"])
def test_a_file_of_the_model_is_not_replaced(name, tmp_path):
    model = tmp_path / "model"
    convert(CLASSIFIER, model)
    before = (model / name).read_bytes()
    for folder in (str(model), os.path.relpath(model)):
        with (
            pytest.raises(UserError, match="--output must not be a file of the model"),
            opened(f"{folder}/{name}", (".json", ".txt"), workdir=str(model)),
        ):
            pass
    assert (model / name).read_bytes() == before
    with (
        pytest.raises(UserError, match="must not be a file"),
        opened(str(model / "metrics.jsonl"), (".jsonl",), workdir=str(model)),
    ):
        pass  # the next run has the output
    with opened(str(model / "found.json"), (".json",), workdir=str(model)) as file:
        file.write("{}")


def test_prepared_text_is_not_written_into_its_input(tmp_path):
    (tmp_path / "vocab.txt").write_text("some text\n")
    os.symlink(tmp_path, tmp_path / "link")
    for folder in (tmp_path, tmp_path / "link"):
        with pytest.raises(UserError, match="--output must not be the folder of the input"):
            prepare_folder(str(tmp_path / "*.txt"), str(folder))
    assert (tmp_path / "vocab.txt").read_text() == "some text\n"


def test_two_commands_with_the_same_output_write_complete_files(tmp_path):
    path = tmp_path / "x.tsv"
    (tmp_path / f"x.tsv.{'0' * 32}.partial").touch()  # of a killed process
    with opened(str(path), (".tsv",)) as first:
        first.write("1\n" * 10_000)
        with opened(str(path), (".tsv",)) as second:
            second.write("2\n" * 20_000)
        assert path.read_text() == "2\n" * 20_000
        first.write("1\n")
    assert path.read_text() == "1\n" * 10_001
    assert os.listdir(tmp_path) == ["x.tsv"]


def test_a_link_stays_a_link(tmp_path):
    os.symlink(tmp_path / "real.tsv", tmp_path / "link.tsv")
    with opened(str(tmp_path / "link.tsv"), (".tsv",)) as file:
        file.write("x")
    assert os.path.islink(tmp_path / "link.tsv") and (tmp_path / "real.tsv").read_text() == "x"


def test_a_pipe_is_written_directly(tmp_path):
    path, found = tmp_path / "x.tsv", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    reader.start()
    with opened(str(path), (".tsv",)) as file:
        file.write("é")
    reader.join(10)
    assert found == ["é"] and os.listdir(tmp_path) == ["x.tsv"]


def test_results_on_the_terminal_are_utf_8_in_any_locale(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
    with opened("-", ()) as file:
        file.write("é\n")
    sys.stdout.flush()
    assert written.getvalue() == "é\n".encode()


def test_a_folder_of_another_running_conversion_is_not_removed(tmp_path):
    target = tmp_path / "out"
    target.mkdir()
    lock = lock_file(str(target / "lock"), "held")
    with pytest.raises(
        UserError, match="Only one process at a time may write to a folder.*in use by"
    ):
        convert(CLASSIFIER, target)
    (target / "model").write_text("of the other")
    lock.close()
    with pytest.raises(UserError, match="a new or empty folder"):
        convert(CLASSIFIER, target)
    assert (target / "model").read_text() == "of the other"
    (target / "model").unlink()
    convert(CLASSIFIER, target)
    assert (target / "config.json").exists() and not (target / "lock").exists()


def test_a_missing_folder_is_named_before_missing_data(tmp_path):
    values = _Flags(workdir=str(tmp_path / "nowhere"), source="a.en", target="a.de")
    with pytest.raises(UserError, match="nowhere does not exist"):
        evaluate._evaluate(values)
