"""Free memory of GPUs."""

import os
import subprocess

import tensorflow as tf

# Fraction of the memory of a GPU that TensorFlow can allocate, with some reserve.
USABLE_FRACTION = 0.9


def free_gpu_memory(names):
    """Returns the free memory in bytes of the GPU that has the least; None without nvidia-smi.

    Memory that other processes use counts as free.

    Args:
        names: Names of the devices.
    """
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(
            [*query, f"--id={','.join(_gpu_ids(names))}"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
        total = min(int(line) for line in found.split()) * 2**20
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
    used = max(
        tf.config.experimental.get_memory_info(f"GPU:{_index(name)}")["current"] for name in names
    )
    return max(0, int(USABLE_FRACTION * total) - used)


def _gpu_ids(names):
    """Returns the indices or UUIDs of devices for nvidia-smi, which lists also hidden GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    indices = [str(_index(name)) for name in names]
    return [visible.split(",")[int(index)].strip() for index in indices] if visible else indices


def _index(name):
    return tf.DeviceSpec.from_string(name).device_index or 0
