"""Free memory of GPUs."""

import subprocess

import tensorflow as tf

# Fraction of the memory of a GPU that TensorFlow can allocate, with some reserve.
USABLE_FRACTION = 0.9


def free_gpu_memory(names):
    """Returns the free memory in bytes of the GPU that has the least; None without nvidia-smi.

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
