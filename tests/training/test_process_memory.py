"""Free memory is the lowest limit of the machine and of each control group."""

import pytest
import tensorflow as tf

from keras_attn.training import process_memory
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow import gpu_memory

GB = 2**30
MEMINFO = "MemTotal: 25165824 kB\nMemFree: 1024 kB\nMemAvailable: 20971520 kB\n"  # 20 GB


def machine(root, files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return process_memory.free_memory(root)


def group(folder, limit, used, cache=0):
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cache}\nactive_file 7\n",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 20 * GB),
        ({"proc/self/cgroup": "0::/\n", **group("sys/fs/cgroup", 8 * GB, 3 * GB, GB)}, 6 * GB),
        ({"proc/self/cgroup": "0::/\n", **group("sys/fs/cgroup", "max", 3 * GB)}, 20 * GB),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                **group("sys/fs/cgroup/a", 4 * GB, GB),
                **group("sys/fs/cgroup/a/b", 9 * GB, GB),
            },
            3 * GB,
        ),
        ({"proc/self/cgroup": "0::/\n", **group("sys/fs/cgroup", GB, 2 * GB)}, 0),
        (
            {
                "proc/self/cgroup": "12:cpu,memory:/docker/x\n0::/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{5 * GB}",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * GB}",
                "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GB}\n",
            },
            4 * GB,
        ),
        ({"proc/meminfo": "MemTotal: 5 kB\n"}, None),
    ],
    ids=["machine", "group", "unlimited", "group above", "exceeded", "version 1", "old kernel"],
)
def test_the_lowest_limit_applies(tmp_path, files, expected):
    assert machine(tmp_path, files) == expected


def test_free_memory_is_only_known_on_linux(tmp_path):
    assert process_memory.free_memory(tmp_path) is None


def test_devices_of_one_host_share_its_memory(monkeypatch):
    monkeypatch.setattr(process_memory, "free_memory", lambda: 20 * GB)
    assert make_engine(strategy="one_device").free_memory() == 20 * GB
    assert make_engine(strategy="mirrored").free_memory() == 10 * GB


def test_free_gpu_memory_is_the_total_of_nvidia_smi_minus_used_memory(monkeypatch):
    names = ("/job:localhost/replica:0/task:0/device:GPU:0",)

    class Found:
        stdout = "81559\n40000\n"

    monkeypatch.setattr(gpu_memory.subprocess, "run", lambda *_, **__: Found)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _: {"current": GB})
    assert gpu_memory.free_gpu_memory(names) == int(0.9 * 40000 * 2**20) - GB

    def missing(*_, **__):
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(gpu_memory.subprocess, "run", missing)
    assert gpu_memory.free_gpu_memory(names) is None
