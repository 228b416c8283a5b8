"""How much memory a run may take."""

import pathlib
import subprocess

import tensorflow as tf

# What TensorFlow leaves of a GPU's memory to the driver and its libraries, and some reserve.
GPU_SHARE = 0.9


def free_memory(strategy, root="/"):
    """Bytes that the devices of this process can still take, for each of them; None if unknown.

    Args:
        strategy: The strategy of the run.
        root: Where /proc and /sys are.
    """
    names = strategy.extended.worker_devices
    if tf.DeviceSpec.from_string(names[0]).device_type == "GPU":
        return _of_gpus(names)
    free = _of_host(pathlib.Path(root))
    return free and free // len(names)  # which share it


def _of_host(root):
    """What is available on Linux, within the limits of control groups; None elsewhere."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    return min([available * 1024, *_of_control_groups(root)])


def _of_control_groups(root):
    """What each limit of the groups that this process is in, and of those above, leaves."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")
        for folder in [group, *group.parents]:
            yield from _left(folder, *names)
            if folder == base:
                break


def _left(folder, limit, usage, reclaimable):
    try:
        limit, used = (int((folder / name).read_text()) for name in (limit, usage))
        statistics = dict(line.split() for line in (
            folder / "memory.stat").read_text().splitlines())
        yield max(0, limit - used + int(statistics.get(reclaimable, 0)))
    except (OSError, ValueError):  # there is none, or it is "max"
        return


def _of_gpus(names):
    """The least that a GPU has free; None without nvidia-smi."""
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=20, check=True).stdout
        total = min(int(line) for line in found.split()) * 2**20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    used = max(tf.config.experimental.get_memory_info(
        f"GPU:{tf.DeviceSpec.from_string(name).device_index or 0}")["current"] for name in names)
    return max(0, int(GPU_SHARE * total) - used)
