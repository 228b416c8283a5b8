"""Choice of the strategy, and its errors."""

import json
import types

import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow import gpu_memory, strategies
from keras_attn.training.engines.tensorflow.engine import is_chief
from keras_attn.training.engines.tensorflow.strategies import make_strategy


def test_auto_selects_one_device_if_there_is_one():
    assert isinstance(make_strategy("auto"), tf.distribute.OneDeviceStrategy)


def test_a_process_has_one_mirrored_strategy_so_that_two_runs_do_not_mix_their_sums():
    assert make_strategy("mirrored") is make_strategy("mirrored")
    assert make_strategy("mirrored").num_replicas_in_sync == 2


def test_one_process_agrees_with_itself():
    for name, devices in (("one_device", "1 x CPU"), ("mirrored", "2 x CPU")):
        engine = make_engine(strategy=name)
        assert engine.is_chief and not engine.fixed_shapes and engine.describe() == devices
        assert engine.broadcast([3.0, -1.0]).tolist() == [3.0, -1.0]
        assert engine.any(15) and not engine.any(0)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("mirorred", None, "one of auto, one_device, mirrored"),
        ("multi_worker", None, "no TF_CONFIG"),
        ("auto", "{", "must be JSON with a cluster"),
        ("auto", "[]", "must be JSON with a cluster"),
        ("auto", '{"cluster": 3}', "must be JSON with a cluster"),
        ("auto", '{"cluster": {"worker": ["a:1"]}}', "and the task"),
        (
            "auto",
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
            "and the task",
        ),
        (
            "auto",
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}}',
            "and the task",
        ),
    ],
)
def test_invalid_strategies_are_user_errors(monkeypatch, name, config, message):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config is not None:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UserError, match=message):
        make_engine(strategy=name)


@pytest.mark.parametrize("with_chief", [False, True])
def test_the_chief_is_the_chief_or_else_worker_0(monkeypatch, with_chief):
    cluster = {"worker": ["a:1", "b:1"], **({"chief": ["c:1"]} if with_chief else {})}

    class Strategy:
        pass

    found = {}
    for kind in cluster:
        for index in range(len(cluster[kind])):
            monkeypatch.setenv(
                "TF_CONFIG",
                json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}),
            )
            strategy = Strategy()
            strategy.cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            found[kind, index] = is_chief(strategy)
    assert [task for task, chief in found.items() if chief] == [
        ("chief", 0) if with_chief else ("worker", 0)
    ]
    assert strategies._cluster_workers() == (3 if with_chief else 2)


def test_virtual_devices_cannot_change_after_tensorflow_is_initialized():
    assert make_strategy("mirrored", virtual_devices=2).num_replicas_in_sync == 2
    with pytest.raises(UserError, match="before TensorFlow is first used.*virtual_devices=3"):
        make_strategy("mirrored", virtual_devices=3)


@pytest.mark.parametrize(
    ("visible", "ids"),
    [(None, "1,0"), ("", "1,0"), ("5, GPU-a1", "GPU-a1,5")],
)
def test_the_memory_of_the_gpus_of_the_run_counts(monkeypatch, visible, ids):
    def run(command, **_):
        assert command[-1] == f"--id={ids}"
        return types.SimpleNamespace(stdout="1000\n2000\n")

    monkeypatch.setattr(gpu_memory.subprocess, "run", run)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_memory_info",
        lambda name: {"current": {"GPU:0": 100, "GPU:1": 300}[name]},
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = gpu_memory.free_gpu_memory(["/device:GPU:1", "/device:GPU:0"])
    assert found == int(0.9 * 1000 * 2**20) - 300
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert gpu_memory.free_gpu_memory(["/device:GPU:1"]) is None
