"""metrics.jsonl has one record per step; the progress line is updated in place."""

import io
import json
import math

import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.records import ProgressLine, Records, duration, read_records


def _write(folder, start, steps, active=True):
    records = Records(str(folder), start, active)
    records.write([{"step": step, "loss": step / 3} for step in steps])
    records.close()


def _steps(folder):
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").open()]


def test_each_step_has_one_record_after_resuming_from_an_earlier_checkpoint(tmp_path):
    _write(tmp_path, 0, range(1, 8))
    _write(tmp_path, 5, range(6, 10))
    assert _steps(tmp_path) == list(range(1, 10))


def test_records_on_another_file_system_are_appended_after_resuming(tmp_path):
    folder = f"ram:/{tmp_path}"
    _write(folder, 0, range(1, 5))
    _write(folder, 2, range(3, 8))
    assert [record["step"] for record in read_records(folder)] == list(range(1, 8))


def test_incomplete_lines_and_invalid_records_are_dropped(tmp_path):
    _write(tmp_path, 0, [1, 2])
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('[1]\nnull\n{"other": 1}\n{"step": 3, "lo')
    _write(tmp_path, 2, [3])
    assert _steps(tmp_path) == [1, 2, 3]


def test_floats_have_the_precision_of_float32_and_counts_are_integers(tmp_path):
    records = Records(str(tmp_path), 0)
    records.write([{"step": 123456789, "loss": 1 / 3}])
    records.close()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 123456789, "loss": 0.3333333}\n'


def test_tensorboard_gets_the_last_record_of_each_call(tmp_path):
    records = Records(str(tmp_path), 0)
    records.write([{"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}])
    records.close()
    (events,) = (tmp_path / "events").iterdir()
    found = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    ]
    assert found == [(2, "loss", 2.0)]


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path):
    _write(tmp_path / "run", 0, [1], active=False)
    stream = io.StringIO()
    progress = ProgressLine(9, stream, active=False)
    progress.show({}, 1.0)
    progress.interrupt("x")
    assert not (tmp_path / "run").exists() and stream.getvalue() == ""


RECORD = {
    "step": 1200,
    "loss": 2.5,
    "mlm_accuracy": 0.25,
    "learning_rate": 1e-4,
    "sequences_per_second": 1234.0,
}
LINE = "step 1,200/5,000 · loss 2.500 · mlm 25.0% · lr 1.0e-04 · 1,234 seq/s · 1m 05s left"


def test_a_log_has_a_line_from_time_to_time_and_the_last_one():
    stream = io.StringIO()
    progress = ProgressLine(5000, stream)
    for _ in range(3):
        progress.show(RECORD, 65.0)
    progress.show(RECORD, 65.0, final=True)
    assert stream.getvalue() == f"{LINE}\n{LINE}\n"


def test_a_terminal_line_is_updated_in_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = ProgressLine(5000, stream)
    progress.show(RECORD, 65.0)
    progress.interrupt("validation")
    progress.show(RECORD, 0, final=True)
    width = len(LINE)
    assert stream.getvalue().startswith(f"\r{LINE}\r{' ' * width}\rvalidation\n\rstep 1,200")
    assert stream.getvalue().endswith("0s left\n")
    monkeypatch.setenv("COLUMNS", "40")
    stream.truncate(0)
    stream.seek(0)
    progress.show(RECORD, 65.0)
    assert stream.getvalue() == "\r" + LINE[:39]


def test_durations_are_short_texts():
    assert [duration(s) for s in (-1, 59.4, 60, 3600, 7384)] == [
        "0s",
        "59s",
        "1m 00s",
        "1h 00m",
        "2h 03m",
    ]


def test_invalid_text_and_invalid_records_are_skipped(tmp_path):
    _write(tmp_path, 0, [1, 2])
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'\xff\xfe\n{"step": "3"}\n{"step": 3, "loss": NaN}\n' + b"[" * 100_000 + b"\n")
    assert [record["step"] for record in read_records(str(tmp_path))] == [1, 2, 3]
    _write(tmp_path, 3, [4])
    assert _steps(tmp_path) == [1, 2, 3, 4]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines[2] == '{"step": 3, "loss": null}'
    assert math.isnan(read_records(str(tmp_path))[2]["loss"])


def test_numbers_that_are_not_finite_are_null(tmp_path):
    records = Records(str(tmp_path), 0)
    records.write([{"step": 1, "loss": math.inf, "perplexity": math.nan}])
    records.close()
    line = '{"step": 1, "loss": null, "perplexity": null}\n'
    assert (tmp_path / "metrics.jsonl").read_text() == line


def test_unreadable_and_unwritable_records_are_errors(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match="Cannot read .*metrics.jsonl: it is not a regular file"):
        Records(str(tmp_path), 0)
    assert read_records(str(tmp_path / "nothing")) == []
