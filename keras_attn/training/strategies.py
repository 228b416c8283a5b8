"""Choice of the `tf.distribute` strategy, and what its workers agree on."""

import functools
import json
import os

import keras
import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError

EXAMPLE = ('{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
           '"task": {"type": "worker", "index": 0}}')
NAMES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def make_strategy(name="auto", virtual_devices=0, tpu=None):
    """Makes the strategy a run trains under.

    Args:
        name: One of `NAMES`. `auto` takes `multi_worker` when TF_CONFIG names
            several workers, `mirrored` with several GPUs or virtual devices,
            else `one_device`.
        virtual_devices: Splits the CPU into that many devices and uses no GPU, to try
            `mirrored`. Must come before TensorFlow starts.
        tpu: Address of the TPU for `tpu`; None or "" on a TPU machine itself.

    Raises:
        UserError: For an unknown name, a cluster that is not there, or another backend.
    """
    check_backend()
    if name not in NAMES:
        raise UserError(f"--strategy must be one of {', '.join(NAMES)}. Received: {name}")
    if virtual_devices:
        _split_cpu(virtual_devices)
    workers = _cluster_workers()
    # Physical devices: to list logical ones would start TensorFlow, which the
    # multi-worker strategy must do itself.
    gpus = [] if virtual_devices else tf.config.list_physical_devices("GPU")
    if name == "auto":
        several = virtual_devices > 1 or len(gpus) > 1
        name = "multi_worker" if workers > 1 else "mirrored" if several else "one_device"
    if name == "tpu":
        return _tpu_strategy(tpu)
    if name == "multi_worker":
        if not workers:
            raise UserError(
                "--strategy=multi_worker needs the cluster in the environment variable "
                f"TF_CONFIG, such as {EXAMPLE}. Received: no TF_CONFIG"
            )
        return _multi_worker_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
        return _mirrored_strategy(*(device.name for device in devices))
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpus else "/cpu:0")


def check_backend():
    """Checks that Keras runs on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise UserError("Runs and predictions need Keras on TensorFlow; layers and models alone "
                        f"run on others. Received: KERAS_BACKEND={keras.backend.backend()}")


def _split_cpu(number):
    try:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration() for _ in range(number)],
        )
        tf.config.set_visible_devices([], "GPU")  # the multi-worker strategy takes what it sees
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
        counts = {kind: len(config["cluster"].get(kind, ())) for kind in ("chief", "worker")}
        if any(counts.values()) and \
                not 0 <= int(config["task"]["index"]) < counts[config["task"]["type"]]:
            raise KeyError
        return sum(counts.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError("TF_CONFIG must be JSON with a cluster and the task in it that this "
                        f"process is, such as {EXAMPLE}. Received: {text}") from None


# A second strategy over the same devices would number its collectives from the start again,
# and they would meet those of the first: one process has one.
@functools.cache
def _mirrored_strategy(*devices):
    return tf.distribute.MirroredStrategy(devices)


@functools.cache
def _multi_worker_strategy():
    # Heartbeats (TensorFlow's coordination service) end every collective within seconds of a
    # worker's death. A timeout would also end those that wait for the chief to prepare text or
    # to write a large checkpoint.
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu_strategy(address):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address or "local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # TensorFlow raises many kinds here, all of them "no TPU"
        lines = str(error).splitlines()
        reason = next((line for line in lines if "TPU" in line), lines[0] if lines else error)
        raise UserError(f"No TPU could be reached. Received: --tpu={address}: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


def devices(strategy):
    """What the strategy trains on, such as `2 x GPU`."""
    name = strategy.extended.worker_devices[0]
    kind = tf.DeviceSpec.from_string(name).device_type
    return f"{strategy.num_replicas_in_sync} x {kind}"


def is_chief(strategy):
    """Whether this process writes files: worker 0, or the only one."""
    resolver = strategy.cluster_resolver
    if resolver is None or isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return resolver.task_type in (None, "", "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and not resolver.cluster_spec().as_dict().get("chief")
    )


def is_multi_worker(strategy):
    """Whether several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def agree(strategy, values):
    """The chief's numbers, on every worker.

    A run takes its decisions (how many steps next, stop, what time it is) by
    clock and signal, which differ between workers; this makes them one.

    Args:
        strategy: The strategy of the run.
        values: Sequence of numbers; those of the other workers are ignored.

    Returns:
        NumPy float64 vector.
    """
    values = np.asarray(values, np.float64)
    return values if not is_multi_worker(strategy) else _sum(strategy, values, is_chief(strategy))


def any_worker(strategy, flag):
    """Whether `flag` is true on any worker."""
    if not is_multi_worker(strategy):
        return bool(flag)
    return bool(_sum(strategy, np.asarray([float(flag)]), True)[0] > 0)


def meet(strategy):
    """Waits until every worker is here; a worker that dies ends the wait with an error."""
    agree(strategy, [0.0])


def _sum(strategy, values, contributes):
    local = tf.constant(values if contributes else np.zeros_like(values))
    return _summation(strategy)(local).numpy()


@functools.lru_cache(maxsize=1)
def _summation(strategy):
    replicas = len(strategy.extended.worker_devices)

    def first_replica_only(local):
        context = tf.distribute.get_replica_context()
        first = context.replica_id_in_sync_group % replicas == 0
        return local * tf.cast(first, local.dtype)

    def total(local):
        return strategy.reduce("SUM", strategy.run(first_replica_only, args=(local,)), axis=None)

    return tf.function(total, autograph=False, reduce_retracing=True)
