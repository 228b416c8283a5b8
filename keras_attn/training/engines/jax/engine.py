"""The JAX engine: steps compiled by `jax.jit` for the devices of a mesh."""

import jax
import numpy as np
import tensorflow as tf
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from keras_attn.errors import UserError
from keras_attn.training import process_memory
from keras_attn.training.engines.contract import Engine
from keras_attn.training.engines.jax.evaluation import JaxEvaluator
from keras_attn.training.engines.jax.step import JaxStep

# Seconds without a heartbeat after which a process is considered dead.
HEARTBEAT_SECONDS = 30


class JaxEngine(Engine):
    """Runs steps on a mesh of devices, which divide the rows of a batch.

    Args:
        devices: Number of devices of this process; 0: all.
        distributed, coordinator, processes, process: The processes of the run; see `_connect`.

    Attributes:
        mesh: `jax.sharding.Mesh` with the axis `batch`.
        replicated: Sharding of arrays that each device has as a whole.
    """

    def __init__(
        self, devices=0, distributed=False, coordinator=None, processes=None, process=None
    ):
        _connect(distributed, coordinator, processes, process)
        count = jax.local_device_count()
        if devices > count:
            raise UserError(
                f"--devices must be at most {count}, the number of local devices. "
                f"Received: devices={devices}"
            )
        _hide_gpus_from_tensorflow()
        chosen = [
            device
            for number in range(jax.process_count())
            for device in jax.local_devices(process_index=number)[: devices or None]
        ]
        self.mesh = Mesh(np.array(chosen), ("batch",))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.num_replicas = self.replicas_per_request = self.mesh.size
        self.is_chief = jax.process_index() == 0
        self._local = list(self.mesh.local_mesh.devices)
        self._platform = self._local[0].platform
        self.fixed_shapes = self._platform == "tpu"

    def describe(self):
        return f"{self.num_replicas} x {self._platform.upper()}"

    def free_memory(self):
        if self._platform == "cpu":
            free = process_memory.free_memory()
            return free and free // len(self._local)
        stats = [device.memory_stats() for device in self._local]
        if not all(stats):
            return None
        return min(one["bytes_limit"] - one["bytes_in_use"] for one in stats)

    def peak_memory(self):
        if self._platform == "cpu":
            return super().peak_memory()
        stats = self._local[0].memory_stats()
        return stats and stats["peak_bytes_in_use"]

    def make_step(self, model, optimizer, **options):
        return JaxStep(self, model, optimizer, **options)

    def make_evaluator(self, model, **options):
        return JaxEvaluator(self, model, **options)

    def broadcast(self, values):
        values = np.asarray(values, np.float64)
        if jax.process_count() == 1:
            return values
        # As integers: JAX rounds float64 to float32.
        parts = multihost_utils.broadcast_one_to_all(values.view(np.uint32))
        return np.asarray(parts).view(np.float64)

    def any(self, flag):
        if jax.process_count() == 1:
            return bool(flag)
        return bool(multihost_utils.process_allgather(np.asarray([flag], bool)).any())

    def values(self, variables):
        """Copies variables to all devices of the mesh, where they stay; returns their arrays."""
        values = [variable.value for variable in variables]
        if self.mesh.is_multi_process and not all(x.sharding == self.replicated for x in values):
            # Processors of different kinds may compute different initial weights.
            values = multihost_utils.broadcast_one_to_all([np.asarray(x) for x in values])
        for variable, value in zip(variables, values, strict=True):
            variable.assign(self._on_mesh(value, self.replicated))
        return [variable.value for variable in variables]

    def divide_rows(self, batch, axis=0):
        """Divides the rows of a batch, a dict of NumPy arrays, among the devices of the mesh."""
        rows = NamedSharding(self.mesh, PartitionSpec(*[None] * axis, "batch"))
        return {name: self._on_mesh(x, rows) for name, x in batch.items()}

    def _on_mesh(self, array, sharding):
        if not self.mesh.is_multi_process:
            return jax.device_put(array, sharding)
        if getattr(array, "sharding", None) == sharding:
            return array
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


ENGINE = JaxEngine


def _connect(distributed, coordinator, processes, process):
    """Connects the processes of a run.

    Args:
        distributed: Whether to detect the processes.
        coordinator: Address of process 0, or None.
        processes, process: Number of processes, and number of this one; required with, and only
            with `coordinator`.

    Raises:
        UserError: If the arguments are not valid, or the processes do not answer.
    """
    given = {"coordinator": coordinator, "processes": processes, "process": process}
    received = ", ".join(f"{name}={value}" for name, value in given.items())
    unset = [name for name, value in given.items() if value is None]
    if 0 < len(unset) < 3 or distributed and not unset:
        raise UserError(
            "--coordinator, --processes and --process must be set together, and without "
            f"--distributed. Received: distributed={distributed}, {received}"
        )
    if not distributed and unset:
        return
    known = {}
    if not unset:
        host, _, port = coordinator.rpartition(":")
        if not host or not port.isdecimal():
            raise UserError(f"--coordinator must be HOST:PORT. Received: {coordinator}")
        if process >= processes:
            raise UserError(f"--process must be below --processes. Received: {received}")
        known = {
            "coordinator_address": coordinator,
            "num_processes": processes,
            "process_id": process,
            "cluster_detection_method": "deactivate",
        }
    if jax.distributed.is_initialized():  # by an earlier run of this process
        return
    # Its handler of SIGTERM would replace that of the trainer.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            **known,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except (ValueError, RuntimeError) as error:
        raise UserError(
            "Cannot connect the processes of the run. Set --coordinator, --processes and --process "
            f"for every process, before JAX is used. Received: {error}"
        ) from error


def _hide_gpus_from_tensorflow():
    """Prevents TensorFlow, which reads text, from reserving the memory of the GPUs."""
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        raise UserError(
            f"The JAX engine must be made before TensorFlow uses a GPU. Received: {error}"
        ) from error
