"""Files that are damaged in many ways are rejected in one line, or read correctly."""

import json
import os
import pathlib
import random
import shutil

import numpy as np
import pytest

from keras_attn import convert, load
from keras_attn.errors import UserError
from tests.support.google_folders import google_weights, write_google
from tests.support.small_workdirs import GOLDEN, KINDS, content, write_workdir
from tests.support.strange_files import strange_json

FOREIGN = [
    "hugging_face/pretraining",
    "hugging_face/untied",
    "language_models/gpt2",
    "language_models/xlnet_classifier",
    "keras_hub",
    "keras_hub_gpt2",
    "google",
]
# Files whose content is verified, by a SHA-256 in config.json or by their own checksums.
CHECKED = ("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "subwords.model", ".npz")
OTHERS = [
    b"",
    b"\0" * 100,
    b"\xff\xfe\0{",
    b"[]",
    b"null",
    b"1",
    b"{}",
    b'"x"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 5_000,
    b"{" + b" " * 1_000_000 + b"}",
    b"PK\x05\x06" + b"\0" * 18,
    b"\x89HDF\r\n\x1a\n" + b"\xff" * 100,
    b"\xff" * 8 + b"{}",
    b"\r" * 50,
    b"\n" * 50,
]


def _truncated(path, draw):
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(draw.choice([0, 1, size // 2, max(0, size - 1), draw.randrange(size + 1)]))


def _flipped(path, draw):
    changed = bytearray(path.read_bytes())
    place = draw.randrange(min(len(changed), draw.choice([300, 10**9])))
    changed[place] ^= 1 << draw.randrange(8)
    path.write_bytes(changed)


def _replaced(path, draw):
    path.write_bytes(draw.choice(OTHERS))


def _folder(path, draw):
    path.unlink()
    path.mkdir()


def _link(path, draw):
    path.unlink()
    path.symlink_to(draw.choice([path, path.parent, path.parent / "nowhere", "/dev/null"]))


def _pipe(path, draw):
    path.unlink()
    os.mkfifo(path)


def _strange(path, draw):
    if path.suffix == ".json" and path.read_bytes()[:1] in b"{[":
        strange_json(path, draw)
    else:
        _flipped(path, draw)


DAMAGES = [
    _truncated,
    _flipped,
    _flipped,
    _replaced,
    _folder,
    _link,
    _pipe,
    _strange,
    _strange,
    _strange,
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of all formats by name, written when they are first used."""
    made, root = {}, tmp_path_factory.mktemp("folders")

    def folder(name):
        if name not in made:
            made[name] = (
                write_workdir(name, root / name)
                if name in KINDS
                else write_google(root / name, google_weights())
                if name == "google"
                else GOLDEN / name
            )
        return made[name]

    return folder


@pytest.mark.runs
@pytest.mark.parametrize("name", [*KINDS, *FOREIGN])
def test_a_damaged_file_is_rejected_in_one_line_or_read_correctly(name, folders, tmp_path, capfd):
    source, draw = folders(name), random.Random(name)
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    right, refused = content(source), 0
    for damage in DAMAGES:
        for file in files:
            copy = tmp_path / "copy"
            shutil.copytree(source, copy)
            damage(copy / file, draw)
            try:
                found = content(copy)
            except UserError as error:
                assert "\n" not in str(error) and len(str(error)) < 1500, (damage, file)
                refused += 1
            except BaseException as error:
                raise AssertionError(f"{damage.__name__} of {file}: {error!r}") from error
            else:
                if name in KINDS and file.name.endswith(CHECKED):
                    assert found[0] == right[0], (damage, file)
            shutil.rmtree(copy)
    assert refused > 2 * len(files)
    assert "Traceback" not in capfd.readouterr().err


def test_undamaged_files_are_read_correctly(folders):
    for name in KINDS:
        assert content(folders(name)) == content(pathlib.Path(folders(name)))
        assert json.loads((folders(name) / "config.json").read_text())["data_sha256"]


def _edited(folder, change):
    path = folder / "config.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_dim", 2**30),
        ("hidden_dim", "8"),
        ("vocabulary_size", 2**31 - 1),
        ("vocabulary_size", -1),
        ("num_layers", 9_999),
        ("num_layers", None),
        ("num_heads", [2]),
        ("num_heads", 0),
        ("intermediate_dim", 2**31 - 1),
        ("intermediate_dim", {}),
        ("dropout", "0.1"),
        ("layer_norm_epsilon", True),
        ("activation", 3),
        ("unknown", 1),
    ],
)
def test_an_architecture_of_wrong_types_or_sizes_allocates_no_memory(
    folders, tmp_path, name, field, value
):
    folder = tmp_path / "copy"
    shutil.copytree(folders(name), folder)
    _edited(folder, lambda found: found["architecture"].update({field: value}))
    with pytest.raises(UserError, match=".") as error:
        load(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex64", "S4"])
def test_weights_of_other_dtypes_are_rejected(folders, tmp_path, name, dtype):
    folder = tmp_path / "copy"
    shutil.copytree(folders(name), folder)
    (path,) = (folder / "checkpoints").glob("*.npz")
    arrays = dict(np.load(path))
    last = sorted(arrays)[-2]
    np.savez(path, **{**arrays, last: np.ones(arrays[last].shape, dtype)})
    with pytest.raises(
        UserError, match=f"must (contain|be).*float32.*Received: ({dtype}|.*S4|bytes)"
    ):
        load(str(folder))


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_a_converted_classifier_converts_back(format, tmp_path):
    folder = write_workdir("bert", tmp_path / "run")
    convert.convert(folder, tmp_path / "back", format)
    if format == "huggingface":
        assert content(tmp_path / "back")[0] == content(folder)[0]
