"""Checkpoints are complete or ignored, whatever happens to their files."""

import os

import keras
import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.training import checkpoints as module
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.optimizers import make_optimizer
from keras_attn.training.variables import assign_values, digest, read_values, variables_by_path
from tests.support.quick import quick


def _values(step):
    return {"model/a": np.full((3, 2), step, np.float32), "optimizer/b": np.arange(step)}


def _saved(folder, *steps, keep=2):
    warnings = []
    checkpoints = Checkpoints(str(folder), keep, warnings.append)
    for step in steps:
        checkpoints.save(step, _values(step), {"seconds": step / 2})
    return checkpoints, warnings


def _model(width=4):
    layers = [keras.layers.Dense(width, name="dense"), keras.layers.Dropout(0.5, seed=1)]
    model = keras.Sequential([keras.layers.Input((3,)), *layers], name="net")
    return model, make_optimizer("adamw", model)


def test_checkpoints_on_another_file_system_are_restored_and_removed(tmp_path):
    checkpoints, _ = _saved(f"ram:/{tmp_path}", 1, 2, 3)
    assert checkpoints.steps() == [2, 3]
    values, state = checkpoints.read_newest()
    assert state["seconds"] == 1.5
    for path, value in _values(3).items():
        np.testing.assert_array_equal(values[path], value)
    checkpoints.drop_after(2)
    assert checkpoints.steps() == [2]


def test_values_and_state_are_restored(tmp_path):
    checkpoints, _ = _saved(tmp_path / "c", 7)
    values, state = checkpoints.read_newest()
    assert state == {"seconds": 3.5, "step": 7}
    assert digest(values) == digest(_values(7))
    assert digest(values) != digest(_values(8))


def test_a_file_in_place_of_the_folder_is_an_error_before_training(tmp_path):
    (tmp_path / "checkpoints").write_text("x")
    with pytest.raises(UserError, match="checkpoints is a file, where a folder"):
        Checkpoints(str(tmp_path / "checkpoints")).steps()


def test_weights_slots_and_counter_are_restored_without_seeds():
    model, optimizer = _model()
    gradients = [keras.ops.ones(v.shape) for v in model.trainable_variables]
    optimizer.apply(gradients, model.trainable_variables)
    saved = read_values(variables_by_path(model, optimizer))
    assert not any("seed" in path or "learning_rate" in path for path in saved)
    assert sum(path.startswith("optimizer/") for path in saved) == 1 + 2 * 2
    other, second = _model()
    assign_values(variables_by_path(other, second), saved, "It")
    assert digest(read_values(variables_by_path(other, second))) == digest(saved)
    assert int(second.iterations) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("model/net/dense/kernel"), r"missing: model/net/dense/ker"),
        (lambda values: values.update(other=np.zeros(2)), r"unknown: other$"),
        (lambda values: values.update({"model/net/dense/bias": np.zeros(5)}), r"\(4,\).*\(5,\)"),
    ],
)
def test_a_missing_unknown_or_misshapen_array_is_an_error_and_assigns_nothing(change, message):
    model, optimizer = _model()
    variables = variables_by_path(model, optimizer)
    before = digest(read_values(variables))
    values = {path: value + 1 for path, value in read_values(variables).items()}
    change(values)
    with pytest.raises(UserError, match=message):
        assign_values(variables, values, "The checkpoint")
    assert digest(read_values(variables)) == before


def test_only_the_newest_checkpoints_remain_and_the_index_lists_them(tmp_path):
    checkpoints, _ = _saved(tmp_path, 1, 2, 3, 10, keep=2)
    assert checkpoints.steps() == [3, 10]
    assert sorted(os.listdir(tmp_path)) == ["index.json", "step-10.npz", "step-3.npz"]


def test_the_mean_is_over_undamaged_regular_checkpoints_and_the_newest(tmp_path):
    warnings = []
    checkpoints = Checkpoints(str(tmp_path / "c"), 3, warnings.append, regular=10)
    assert checkpoints.read_mean(3) == ({}, 0)
    for step in (10, 14, 20, 30, 33):
        checkpoints.save(step, _values(step), {})
    assert checkpoints.steps() == [10, 20, 30, 33]
    values, count = checkpoints.read_mean(3)
    assert count == 3 and list(values) == ["model/a"] and values["model/a"].dtype == np.float32
    np.testing.assert_allclose(values["model/a"], np.mean([20, 30, 33]))
    # Checkpoints of the first half of the steps are not averaged.
    assert checkpoints.read_mean(9)[1] == 3
    (tmp_path / "c/step-30.npz").write_bytes(b"nothing")
    values, count = checkpoints.read_mean(3)
    np.testing.assert_allclose(values["model/a"], np.mean([20, 33]))
    assert count == 2 and "damaged" in warnings[-1]


@pytest.mark.parametrize("change", [lambda x: x.astype("float16"), lambda x: x[None]])
def test_the_mean_hides_no_other_type_or_shape(tmp_path, change):
    checkpoints = Checkpoints(str(tmp_path / "c"), 3)
    values = _values(10)
    other = {path: change(np.asarray(x)) for path, x in values.items()}
    checkpoints.save(10, other, {})
    mean, _ = checkpoints.read_mean(2)
    assert mean["model/a"].dtype == other["model/a"].dtype
    checkpoints.save(11, values, {})
    with pytest.raises(UserError, match="step-11.npz, which differs"):
        checkpoints.read_mean(2)


@pytest.mark.parametrize("left", [0, 10, 0.5, -1])
def test_a_truncated_newest_checkpoint_is_skipped_with_a_warning(tmp_path, left):
    checkpoints, warnings = _saved(tmp_path, 1, 2)
    content = (tmp_path / "step-2.npz").read_bytes()
    end = int(left * len(content)) if isinstance(left, float) else left
    (tmp_path / "step-2.npz").write_bytes(content[:end])
    assert checkpoints.read_newest()[1]["step"] == 1
    assert len(warnings) == 1 and "step-2.npz is damaged" in warnings[0]
    assert "\n" not in warnings[0]


def test_a_corrupted_byte_anywhere_in_the_arrays_is_detected(tmp_path):
    checkpoints, warnings = _saved(tmp_path, 1, 2)
    content = bytearray((tmp_path / "step-2.npz").read_bytes())
    at = content.index(np.full((3, 2), 2, np.float32).tobytes()) + 5
    content[at] ^= 1
    (tmp_path / "step-2.npz").write_bytes(content)
    assert checkpoints.read_newest()[1]["step"] == 1 and len(warnings) == 1


@pytest.mark.parametrize("bit", quick([1, 8, 128], 8))
def test_a_checkpoint_with_a_flipped_bit_is_unchanged_or_skipped(tmp_path, bit):
    checkpoints, warnings = _saved(tmp_path, 1, 2)
    content = (tmp_path / "step-2.npz").read_bytes()
    skipped = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= bit
        (tmp_path / "step-2.npz").write_bytes(changed)
        values, state = checkpoints.read_newest()
        skipped += state["step"] == 1
        assert digest(values) == digest(_values(state["step"]))
    assert skipped == len(warnings) > len(content) / 2


def test_a_checkpoint_that_is_missing_or_of_another_step_is_skipped(tmp_path):
    checkpoints, warnings = _saved(tmp_path, 1, 2, 3, keep=3)
    os.remove(tmp_path / "step-3.npz")
    os.replace(tmp_path / "step-1.npz", tmp_path / "step-2.npz")
    assert checkpoints.read_newest() is None
    assert len(warnings) == 3


@pytest.mark.parametrize("content", ["", "{", '{"steps": 3}', '{"steps": ["x"]}', "[]", "null"])
def test_with_a_damaged_index_the_files_are_listed(tmp_path, content):
    checkpoints, warnings = _saved(tmp_path, 1, 2)
    (tmp_path / "index.json").write_text(content)
    (tmp_path / "step-3.npz.tmp").write_text("half")
    assert checkpoints.read_newest()[1]["step"] == 2
    assert "index.json is missing or damaged" in warnings[0]


def test_without_an_index_the_files_are_listed(tmp_path):
    checkpoints, warnings = _saved(tmp_path, 1, 2)
    os.remove(tmp_path / "index.json")
    assert checkpoints.read_newest()[1]["step"] == 2 and len(warnings) == 1
    checkpoints.drop_after(2)
    assert sorted(os.listdir(tmp_path)) == ["index.json", "step-1.npz", "step-2.npz"]


def test_a_disk_error_does_not_count_as_damage(tmp_path, monkeypatch):
    checkpoints, _ = _saved(tmp_path, 1, 2)

    def unreadable(step, prefix, check):
        raise ConnectionError("try again")

    monkeypatch.setattr(checkpoints, "read", unreadable)
    with pytest.raises(ConnectionError):
        checkpoints.read_newest()


def test_checkpoints_after_a_damaged_one_are_saved(tmp_path):
    checkpoints, _ = _saved(tmp_path, 10, 5000, keep=2)
    (tmp_path / "step-5000.npz").write_bytes(b"")
    assert checkpoints.read_newest()[1]["step"] == 10
    checkpoints.drop_after(10)
    checkpoints.save(20, _values(20), {})
    checkpoints.save(30, _values(30), {})
    assert checkpoints.steps() == [20, 30]


def test_a_file_that_the_index_does_not_list_is_ignored(tmp_path):
    checkpoints, _ = _saved(tmp_path, 1)
    (tmp_path / "step-5.npz").write_bytes((tmp_path / "step-1.npz").read_bytes())
    assert checkpoints.steps() == [1]


def _full(path):
    return open("/dev/full", "wb")


def test_a_full_disk_damages_no_old_checkpoint_and_leaves_no_partial_file(tmp_path, monkeypatch):
    checkpoints, _ = _saved(tmp_path, 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr(module, "open_new", _full)
        with pytest.raises(UserError, match=r"Cannot write .*step-3.npz: No space left.*MB free"):
            checkpoints.save(3, {"model/a": np.zeros(1_000_000, np.float32)}, {})
    assert sorted(os.listdir(tmp_path)) == ["index.json", "step-1.npz", "step-2.npz"]
    assert checkpoints.read_newest()[1]["step"] == 2
    checkpoints.save(3, _values(3), {})
    assert checkpoints.steps() == [2, 3]


def test_unfinished_files_of_a_killed_run_are_removed(tmp_path):
    checkpoints, _ = _saved(tmp_path, 1, 2)
    (tmp_path / "step-3.npz.tmp").write_text("half")
    (tmp_path / "step-3.npz").write_bytes((tmp_path / "step-2.npz").read_bytes())
    checkpoints.drop_after(2)
    assert sorted(os.listdir(tmp_path)) == ["index.json", "step-1.npz", "step-2.npz"]


def test_without_a_folder_there_is_no_checkpoint(tmp_path):
    checkpoints, warnings = _saved(tmp_path / "none")
    assert checkpoints.steps() == [] and checkpoints.read_newest() is None and not warnings
    checkpoints.drop_after(-1)


def test_a_checkpoint_contains_no_pickles(tmp_path):
    checkpoints, warnings = _saved(tmp_path, 1)
    np.savez(tmp_path / "step-1.npz", bad=np.array([{"a": 1}], dtype=object))
    assert checkpoints.read_newest() is None and len(warnings) == 1
