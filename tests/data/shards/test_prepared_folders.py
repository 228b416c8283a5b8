import signal
import subprocess
import sys
import time

import pytest

from keras_attn.data.shards import prepare as prepare_module
from keras_attn.data.shards import shard_writer
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.small_corpus import VOCABULARY, run, shard_files, write_files


@pytest.mark.slow
def test_after_a_kill_it_goes_on_and_ends_with_the_same_shards(tmp_path):
    source, _ = write_files(tmp_path / "text", documents=2000)
    run(source, tmp_path / "unbroken", tokens_per_shard=10_000)
    folder = tmp_path / "killed"
    code = (
        "import sys\n"
        "from tests.support.small_corpus import run\n"
        "run(sys.argv[1], sys.argv[2], tokens_per_shard=10_000, processes=2)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, source, str(folder)])
    while not list(folder.glob("task-*.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(1)  # its processes see the end of their input
    done = {path: path.stat().st_mtime_ns for path in folder.glob("task-*.json")}
    assert done and not is_prepared(folder)
    # What a process was writing must not be taken for whole.
    half = next(
        iter(sorted({f"shard-{n:05d}-000.npz" for n in range(99)} - set(shard_files(folder))))
    )
    (folder / half).write_bytes(b"PK half a shard")
    (folder / f"{half}.1.unfinished").write_bytes(b"PK")
    log = []
    index = run(source, folder, tokens_per_shard=10_000, log=log)
    assert f"{len(done)} of" in log[0]
    assert all(path.stat().st_mtime_ns == before for path, before in done.items())
    assert {shard["file"] for shard in index["shards"]} == set(shard_files(tmp_path / "unbroken"))
    assert shard_files(folder) == shard_files(tmp_path / "unbroken")
    assert not list(folder.glob("*.unfinished"))


def test_the_same_call_again_does_nothing_and_another_source_replaces_the_folder(tmp_path):
    source, files = write_files(tmp_path / "text", files=2)
    folder = tmp_path / "shards"
    index = run(source, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    log = []
    assert run(source, folder, log=log) == index and not log
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    other = WordPieceTokenizer([*VOCABULARY, "unknown"])
    changed = run(source, folder, other)
    assert changed["report"]["unknown_share"] == 0
    (tmp_path / "text/00.txt").write_text("ak .\n")
    index = run(source, folder, other)
    assert index["report"]["documents"] == 1 + len(files["01.txt"])
    assert {shard["file"] for shard in index["shards"]} == set(shard_files(folder))


def test_a_prepared_folder_is_a_source_if_its_vocabulary_fits(tmp_path):
    source, _ = write_files(tmp_path / "text", files=1)
    folder = str(tmp_path / "shards")
    index = run(source, folder)
    assert run(folder, tmp_path / "unused") == index
    assert run(tmp_path / "shards", tmp_path / "unused") == index
    assert not (tmp_path / "unused").exists()
    with pytest.raises(UserError, match="was prepared with another vocabulary"):
        run(folder, tmp_path / "unused", WordPieceTokenizer([*VOCABULARY, "x"]))
    with pytest.raises(UserError, match="lowercase=True instead of False"):
        run(folder, tmp_path / "unused", WordPieceTokenizer(VOCABULARY, lowercase=False))


@pytest.mark.thorough
def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(tmp_path):
    source, _ = write_files(tmp_path / "text", documents=200)
    # A limit on the size of files stands for a full disk: the plan fits, a shard does not.
    code = (
        "import resource, signal, sys\n"
        "from keras_attn.errors import UserError\n"
        "from tests.support.small_corpus import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))\n"
        "try:\n"
        "    run(sys.argv[1], sys.argv[2], tokens_per_shard=5_000)\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    folder = tmp_path / "shards"
    done = subprocess.run(
        [sys.executable, "-c", code, source, str(folder)], capture_output=True, text=True
    )
    assert "Cannot write" in done.stdout and "shard-00000-000.npz" in done.stdout, done.stderr
    assert [path.name for path in folder.iterdir()] == ["plan.json"]
    run(source, folder, tokens_per_shard=5_000)
    run(source, tmp_path / "unbroken", tokens_per_shard=5_000)
    assert shard_files(folder) == shard_files(tmp_path / "unbroken")


def test_a_second_process_is_kept_out_of_a_folder_while_one_prepares_text_in_it(
    tmp_path, monkeypatch
):
    source, _ = write_files(tmp_path / "text")
    run(source, tmp_path / "alone")
    folder = tmp_path / "shards"
    write_task, refused = shard_writer.write_task, []

    def write_and_try_another(*arguments, **options):
        with pytest.raises(UserError, match=f"one process.*{folder}, in use by process") as error:
            run(source, folder, tokens_per_shard=500)
        refused.append(error)
        return write_task(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "write_task", write_and_try_another)
        run(source, folder)
    assert len(refused) > 1
    assert shard_files(folder) == shard_files(tmp_path / "alone")
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("shards", "alone")]
    assert names[0] == names[1]
    # What is done can be read by many.
    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "lock_file", None)
        run(source, folder)
    run(source, folder, tokens_per_shard=500)
    assert shard_files(folder) != shard_files(tmp_path / "alone")


def test_a_folder_named_like_a_pattern_leaves_its_neighbours_alone(tmp_path):
    source, _ = write_files(tmp_path / "text", files=1)
    run(source, tmp_path / "run1")
    before = sorted(path.name for path in (tmp_path / "run1").iterdir())
    run(source, tmp_path / "run[1]")
    assert sorted(path.name for path in (tmp_path / "run1").iterdir()) == before


@pytest.mark.parametrize("beside", [[], ["plan.json"]])
@pytest.mark.parametrize("name", ["index.json", "plan.json", "task-1.json", "shard-old.npz"])
def test_a_folder_with_files_of_something_else_is_refused(tmp_path, name, beside):
    source, _ = write_files(tmp_path / "text", files=1)
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in {name, *beside}:
        (folder / file).write_text('{"mine": 1}')
    with pytest.raises(UserError, match="is not from pretrain.prepare"):
        run(source, folder)
    assert {path.name for path in folder.iterdir()} == {name, *beside}


def test_a_folder_left_half_emptied_is_prepared_anew(tmp_path, monkeypatch):
    source, _ = write_files(tmp_path / "text")
    run(source, tmp_path / "whole", tokens_per_shard=500)
    run(source, tmp_path / "shards")
    (tmp_path / "shards" / "mine.unfinished").write_text("")
    remove, removed = gfile.remove, []

    def killed(path):
        if len(removed) == 3:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(gfile, "remove", killed)
        run(source, tmp_path / "shards", tokens_per_shard=500)
    run(source, tmp_path / "shards", tokens_per_shard=500)
    assert shard_files(tmp_path / "shards") == shard_files(tmp_path / "whole")
    assert (tmp_path / "shards" / "mine.unfinished").exists()
