"""Tasks on a runner of Apache Beam; most of these need it, and run in an environment of their own
(`tests/packaging/test_beam_extra.py`)."""

import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from keras_attn.data.shards import shard_writer
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.errors import UserError
from tests.support.small_corpus import TOKENIZER, VOCABULARY, run, shard_files, write_files

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None, reason="apache_beam is not installed"
)
PROCESSES = "--direct_running_mode=multi_processing --direct_num_workers=2"
MODES = pytest.mark.parametrize("options", ["", PROCESSES], ids=["one", "processes"])


def run_beam(source, folder, options="", **others):
    from keras_attn.data.shards.beam import make_pipeline, write_tasks

    pipeline = make_pipeline("local", options)
    return run(source, folder, run_tasks=functools.partial(write_tasks, pipeline=pipeline),
               **others)  # fmt: skip


def without_times(index):
    report = {key: value for key, value in index["report"].items() if "second" not in key}
    return index | {"report": report}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runner": "local"}, r"pip install 'keras-attn\[beam\]'.*runner=local"),
        ({"runner": "local", "processes": 3}, "direct_num_workers=3'.*runner=local, processes=3"),
        ({"runner": "local", "source": "docstrings"}, "files or tfds:NAME.*docstrings"),
        ({"beam_options": "--project=x"}, "requires --runner.*beam_options=--project=x"),
    ],
)
def test_a_runner_that_cannot_be_is_an_error_before_any_work(
    tmp_path, monkeypatch, options, message
):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "keras_attn.data.shards.beam", raising=False)
    source, _ = write_files(tmp_path / "text", files=1)
    with pytest.raises(UserError, match=message):
        prepare_folder(**{"source": source, "folder": str(tmp_path / "shards"), **options})
    assert not (tmp_path / "shards").exists()


def test_tasks_done_elsewhere_give_the_same_shards_and_only_missing_ones_are_asked_for(tmp_path):
    source, _ = write_files(tmp_path / "text")
    asked = []

    def run_tasks(plan, numbers, tokenizer, folder):
        asked.append(numbers)
        return [(n, shard_writer.write_task(plan, n, tokenizer, folder)) for n in numbers]

    here = run(source, tmp_path / "here")
    there = run(source, tmp_path / "there", run_tasks=run_tasks)
    assert without_times(here) == without_times(there)
    assert shard_files(tmp_path / "here") == shard_files(tmp_path / "there")
    run(source, tmp_path / "there", run_tasks=run_tasks)
    (tmp_path / "there/index.json").unlink()
    (tmp_path / "there/task-00001.json").unlink()
    (tmp_path / "there/beam-1.json").write_text("{}")  # of a job whose caller was killed
    run(source, tmp_path / "there", run_tasks=run_tasks)
    assert asked == [list(range(len(here["shards"]))), [1]]
    assert not list((tmp_path / "there").glob("beam-*"))


@needs_beam
@MODES
def test_a_runner_gives_the_same_shards_and_index(tmp_path, options):
    source, _ = write_files(tmp_path / "text")
    here = run(source, tmp_path / "here")
    there = run_beam(source, tmp_path / "there", options)
    assert len(here["shards"]) == 3
    assert without_times(here) == without_times(there)
    assert shard_files(tmp_path / "here") == shard_files(tmp_path / "there")
    assert not list((tmp_path / "there").glob("beam-*"))


@needs_beam
@MODES
def test_after_a_kill_a_runner_writes_what_is_missing(tmp_path, options):
    source, _ = write_files(tmp_path / "text", documents=3000)
    unbroken = run(source, tmp_path / "unbroken", tokens_per_shard=10_000)
    folder = tmp_path / "killed"
    code = (
        "import sys\n"
        "from tests.data.shards.test_beam import run_beam\n"
        "run_beam(*sys.argv[1:], tokens_per_shard=10_000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, source, str(folder), options])
    while not list(folder.glob("task-*.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(5)  # its processes see that it is gone
    done = {path: path.stat().st_mtime_ns for path in folder.glob("task-*.json")}
    assert 0 < len(done) < len(unbroken["shards"]) and not is_prepared(folder)
    log = []
    index = run_beam(source, folder, options, tokens_per_shard=10_000, log=log)
    assert f"{len(done)} of" in log[0]
    assert all(path.stat().st_mtime_ns == before for path, before in done.items())
    assert index["shards"] == unbroken["shards"]
    assert shard_files(folder) == shard_files(tmp_path / "unbroken")
    assert not [*folder.glob("beam-*"), *folder.glob("*.unfinished")]


@needs_beam
@MODES
def test_bad_text_is_named_by_file_and_line_and_can_be_skipped(tmp_path, options):
    source, _ = write_files(tmp_path / "text", files=4)
    (tmp_path / "text/02.txt").write_bytes(b"ak .\n\n\xff\n")
    with pytest.raises(UserError, match=r"^The text must be.*text/02\.txt, line 3") as error:
        run_beam(source, tmp_path / "shards", options)
    assert "\n" not in str(error.value)
    assert not is_prepared(tmp_path / "shards")
    assert not list((tmp_path / "shards").glob("beam-*"))
    report = run_beam(source, tmp_path / "shards", on_bad_text="skip")["report"]
    assert report["lines_skipped"] == 1


@needs_beam
def test_the_command_prepares_on_a_runner_and_names_a_mistake_in_one_line(tmp_path):
    source, _ = write_files(tmp_path / "text")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    command = [sys.executable, "-m", "pretrain.prepare", f"--input={source}", "--format=lines",
               f"--output={tmp_path / 'shards'}", f"--vocab={tmp_path / 'vocab.txt'}",
               "--runner=local"]  # fmt: skip
    done = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Prepared 300 documents")
    run(source, tmp_path / "here", tokens_per_shard=4_000_000)
    assert shard_files(tmp_path / "here") == shard_files(tmp_path / "shards")
    (tmp_path / "text/02.txt").write_bytes(b"\xff\n")
    done = subprocess.run(command, text=True, capture_output=True, timeout=300)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ") and "02.txt, line 1" in done.stderr


@needs_beam
@pytest.mark.parametrize(
    ("runner", "options", "message"),
    [
        ("FlinkRuner", "", "runner=FlinkRuner.*Did you mean FlinkRunner"),
        ("lcal", "", "runner=lcal.*Did you mean local"),
        ("no.such.Runner", "", "runner=no.such.Runner .No module named 'no'"),
        ("os.getcwd", "", "runner=os.getcwd"),
        ("DataflowRunner", "", "required option: project"),
        ("local", "--direct_num_workers=x", "workers=x .argument --direct_num_workers: invalid"),
        ("local", "--a='b", "No closing quotation"),
        ("local", "--runner=FlinkRunner", "Set the runner with --runner.*--runner=FlinkRunner"),
    ],
)
def test_a_wrong_runner_or_option_is_an_error(runner, options, message):
    from keras_attn.data.shards.beam import make_pipeline

    with pytest.raises(UserError, match=message) as error:
        make_pipeline(runner, options)
    assert "\n" not in str(error.value)


@needs_beam
def test_local_runs_in_python_alone():
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from keras_attn.data.shards.beam import make_pipeline

    for name in ("local", "DirectRunner", "direct"):
        assert type(make_pipeline(name).runner) is FnApiRunner


@needs_beam
def test_a_runner_that_cannot_start_is_an_error(tmp_path):
    from keras_attn.data.shards.beam import make_pipeline, write_tasks

    source, _ = write_files(tmp_path / "text", files=1)
    with pytest.raises(UserError, match="runner=PortableRunner .*job_endpoint"):
        run(
            source,
            tmp_path / "shards",
            run_tasks=functools.partial(write_tasks, pipeline=make_pipeline("PortableRunner")),
        )


@needs_beam
def test_a_fault_of_the_step_is_no_mistake_of_the_user(tmp_path, monkeypatch):
    from keras_attn.data.shards import beam

    def write_task(*arguments):
        raise ZeroDivisionError("of ours")

    source, _ = write_files(tmp_path / "text", files=1)
    monkeypatch.setattr(beam, "write_task", write_task)
    with pytest.raises(Exception, match="of ours.*WriteTask") as error:
        run_beam(source, tmp_path / "shards")
    assert not isinstance(error.value, UserError)
    assert not list((tmp_path / "shards").glob("beam-*"))


@needs_beam
def test_ctrl_c_in_the_step_is_an_interrupt(tmp_path, monkeypatch):
    from keras_attn.data.shards import beam

    source, _ = write_files(tmp_path / "text", files=1)
    monkeypatch.setattr(beam, "write_task", lambda *arguments: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run_beam(source, tmp_path / "shards")


@needs_beam
def test_workers_that_write_elsewhere_are_an_error(tmp_path, monkeypatch):
    from keras_attn.data.shards import beam

    source, _ = write_files(tmp_path / "text", files=1)
    monkeypatch.setattr(beam, "write_task", lambda *arguments: None)
    with pytest.raises(UserError, match="must have access to the output folder.*shards, where"):
        run_beam(source, tmp_path / "shards")


@needs_beam
def test_what_may_pass_is_left_to_the_runner(tmp_path, monkeypatch):
    from keras_attn.data.shards import beam

    def write_task(*arguments):
        try:
            raise ConnectionError("busy")
        except OSError as error:
            raise UserError("The folder must be writable") from error

    job_file = tmp_path / "beam-1.json"
    job_file.write_text('{"user_error": null}')
    step = beam._WriteTask({}, TOKENIZER.recipe, str(tmp_path), str(job_file))
    step.setup()
    monkeypatch.setattr(beam, "write_task", write_task)
    with pytest.raises(UserError):
        step.process(0)
    assert json.loads(job_file.read_text()) == {"user_error": None}, "the job goes on"


@needs_beam
@pytest.mark.parametrize("content", [None, '{"user_error": "Another worker met it."}'])
def test_a_job_that_has_ended_writes_nothing_more(tmp_path, content):
    from keras_attn.data.shards.beam import _WriteTask
    from keras_attn.data.sources.text_sources import plan_source

    source, _ = write_files(tmp_path / "text", files=1)
    job_file = tmp_path / "beam-1.json"
    step = _WriteTask(plan_source(source, format="lines"), TOKENIZER.recipe,
                      str(tmp_path), str(job_file))  # fmt: skip
    step.setup()
    if content:
        job_file.write_text(content)
    step.process(0)
    assert not list(tmp_path.glob("task-*")) and not list(tmp_path.glob("shard-*"))
    job_file.write_text('{"user_error": null}')
    step.process(0)
    assert list(tmp_path.glob("task-*")) and list(tmp_path.glob("shard-*"))
