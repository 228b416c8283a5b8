"""Atomic writes, and links where files are written."""

import errno
import os
import re

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_path, atomic_write, discard, reporting_failed_writes
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.records import Records
from keras_attn.workdir import Workdir


def test_a_failed_write_keeps_the_old_file(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    atomic_write(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(UserError, match="Cannot write .*missing/file: No such"):
        atomic_write(str(tmp_path / "missing" / "file"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_new_file_does_not_exist(tmp_path):
    path = str(tmp_path / "file")
    with (
        pytest.raises(ZeroDivisionError),
        atomic_path(path) as unfinished,
        open(unfinished, "w") as file,
    ):
        file.write("half")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_link_is_replaced_and_its_target_is_not_changed(tmp_path, make):
    precious = tmp_path / "precious"
    precious.write_text("content\n")
    workdir = Workdir(tmp_path / "run")
    workdir.create()
    for name in (
        "config.json",
        "config.json.tmp",
        "labels.json.tmp",
        "metrics.jsonl.tmp",
        "metrics.jsonl",
    ):
        make(precious, workdir / name)
    os.mkdir(workdir / "checkpoints")
    for name in ("step-1.npz.tmp", "index.json.tmp", "step-1.npz"):
        make(precious, workdir / f"checkpoints/{name}")

    workdir.start("finetuning", {}, {}, {}, {})
    workdir.write_json("labels.json", {})
    Checkpoints(workdir / "checkpoints").save(1, {"model/a": np.zeros(2, np.float32)}, {})
    records = Records(workdir.path, 0)
    records.write([{"step": 1, "loss": 0.5}])
    records.close()

    assert precious.read_text() == "content\n"
    assert precious.stat().st_nlink == 1
    assert not any(path.is_symlink() for path in (tmp_path / "run").rglob("*"))
    assert (tmp_path / "run/metrics.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n'


def test_a_dangling_link_creates_no_target(tmp_path):
    os.symlink(tmp_path / "elsewhere", tmp_path / "metrics.jsonl")
    Records(str(tmp_path), 0).close()
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_that_a_link_points_to_is_not_removed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("content")
    os.symlink(tmp_path / "folder", tmp_path / "link")
    discard(str(tmp_path / "link"))
    assert not os.path.lexists(tmp_path / "link")
    assert (tmp_path / "folder/file").read_text() == "content"
    discard(str(tmp_path / "folder"))
    discard(str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_full_disk_is_reported(tmp_path, error):
    mount = str(tmp_path)
    while not os.path.ismount(mount):
        mount = os.path.dirname(mount)
    wanted = (
        rf"Cannot write .*/new/file: .* \(only [\d,.]+ MB free on the disk mounted at "
        rf"{re.escape(mount)}\). Free disk space and run the command again"
    )
    with (
        pytest.raises(UserError, match=wanted),
        reporting_failed_writes(str(tmp_path / "new/file")),
    ):
        raise error
