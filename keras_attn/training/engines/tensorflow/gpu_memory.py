"""Memory of GPUs."""

import subprocess

import tensorflow as tf

# What TensorFlow leaves of a GPU's memory to the driver and its libraries, and some reserve.
USABLE_FRACTION = 0.9


def free_gpu_memory(names):
    """Least number of bytes that a GPU has free; None without nvidia-smi.

    Args:
        names: Names of the devices.
    """
    try:
        found = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
        total = min(int(line) for line in found.split()) * 2**20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    used = max(
        tf.config.experimental.get_memory_info(
            f"GPU:{tf.DeviceSpec.from_string(name).device_index or 0}"
        )["current"]
        for name in names
    )
    return max(0, int(USABLE_FRACTION * total) - used)
