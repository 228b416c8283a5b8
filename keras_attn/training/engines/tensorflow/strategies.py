"""Choice of the `tf.distribute` strategy."""

import functools
import json
import os

import tensorflow as tf

from keras_attn.errors import UserError

EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


def make_strategy(name="auto", virtual_devices=0, tpu=None):
    """Makes the strategy of a run.

    Args:
        name: One of `STRATEGIES`. `auto` selects `multi_worker` if TF_CONFIG names several workers,
            `mirrored` with several GPUs or virtual devices, else `one_device`.
        virtual_devices: Number of virtual CPU devices, without GPUs, to try `mirrored`; 0: none.
            They must be set before TensorFlow is initialized.
        tpu: Address of the TPU for `tpu`; None or "": the TPU of this machine.

    Raises:
        UserError: If the cluster or the TPU does not exist.
    """
    if virtual_devices:
        _split_cpu(virtual_devices)
    workers = _cluster_workers()
    # Listing logical devices would initialize TensorFlow before the multi-worker strategy does.
    gpus = [] if virtual_devices else tf.config.list_physical_devices("GPU")
    if name == "auto":
        several = virtual_devices > 1 or len(gpus) > 1
        name = "multi_worker" if workers > 1 else "mirrored" if several else "one_device"
    if name == "tpu":
        return _tpu_strategy(tpu)
    if name == "multi_worker":
        if not workers:
            raise UserError(
                "--strategy=multi_worker requires the environment variable TF_CONFIG with the "
                f"cluster, such as {EXAMPLE}. Received: no TF_CONFIG"
            )
        return _multi_worker_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return _mirrored_strategy(*(device.name for device in devices))
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")


def _split_cpu(number):
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration() for _ in range(number)],
        )
        tf.config.set_visible_devices([], "GPU")  # the multi-worker strategy uses visible GPUs
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) != number:
            raise UserError(
                "virtual_devices must be set before TensorFlow is first used in a process. "
                f"Received: virtual_devices={number}"
            ) from None


def _cluster_workers():
    text = os.environ.get("TF_CONFIG")
    if not text:
        return 0
    try:
        config = json.loads(text)
        counts = {role: len(config["cluster"].get(role, ())) for role in ("chief", "worker")}
        if (
            any(counts.values())
            and not 0 <= int(config["task"]["index"]) < counts[config["task"]["type"]]
        ):
            raise KeyError
        return sum(counts.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            "TF_CONFIG must be JSON with a cluster, and the task of this process in it, "
            f"such as {EXAMPLE}. Received: {text}"
        ) from None


# One strategy per process: the collectives of a second strategy over the same devices would have
# the same numbers as those of the first.
@functools.cache
def _mirrored_strategy(*devices):
    return tf.distribute.MirroredStrategy(devices)


@functools.cache
def _multi_worker_strategy():
    # The heartbeats of TensorFlow's coordination service end all collectives within seconds if a
    # worker dies. A timeout would also end collectives that wait while the chief prepares text or
    # writes a large checkpoint.
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu_strategy(address):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # various classes of TensorFlow errors
        lines = str(error).splitlines()
        reason = next((line for line in lines if "TPU" in line), lines[0] if lines else error)
        raise UserError(f"Cannot reach the TPU. Received: --tpu={address}: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)
