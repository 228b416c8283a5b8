"""The JAX engine: steps compiled by `jax.jit` for the devices of a mesh."""

import contextlib

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from keras_attn.errors import UserError
from keras_attn.tensorflow_import import hide_gpus
from keras_attn.training import process_memory
from keras_attn.training.engines.contract import Engine
from keras_attn.training.engines.jax.evaluation import JaxEvaluator
from keras_attn.training.engines.jax.layouts import (
    DATA,
    MODEL,
    mesh_shape,
    slot_layouts,
    weight_layout,
)
from keras_attn.training.engines.jax.step import JaxStep
from keras_attn.training.variables import read_values

# Seconds without a heartbeat after which a process is considered dead.
HEARTBEAT_SECONDS = 30


class JaxEngine(Engine):
    """Runs steps on a mesh of devices, which divide the rows of a batch.

    Args:
        devices: Number of devices of this process; 0: all.
        mesh: Sizes of the axes `data`, which divides the rows of a batch, and `model`, which
            divides weights; see `mesh_shape`. None: `data` has all devices.
        shard_optimizer: Whether the axis `data` divides the optimizer slots.
        distributed, coordinator, processes, process: The processes of the run; see `_connect`.

    Attributes:
        mesh: `jax.sharding.Mesh` with the axes `data` and `model`.
        replicated: Sharding of arrays that each device has as a whole.
    """

    def __init__(
        self,
        devices=0,
        mesh=None,
        shard_optimizer=False,
        distributed=False,
        coordinator=None,
        processes=None,
        process=None,
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
        data, model = mesh_shape(mesh, len(chosen)) if mesh else (len(chosen), 1)
        self.mesh = Mesh(np.array(chosen).reshape(data, model), (DATA, MODEL))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.num_replicas = self.replicas_per_request = data
        self._shards, self._slot_shards = model, data if shard_optimizer else 1
        self.reads_weights = model == 1 or jax.process_count() == 1
        self.is_chief = jax.process_index() == 0
        self._local = [one for one in chosen if one.process_index == jax.process_index()]
        self._platform = self._local[0].platform
        self.fixed_shapes = self._platform == "tpu"

    def describe(self):
        axes = f" (data:{self.num_replicas}, model:{self._shards})" if self._shards > 1 else ""
        return f"{self.mesh.size} x {self._platform.upper()}{axes}"

    def free_memory(self):
        if self._shards > 1 or self._slot_shards > 1:
            return None  # estimates assume that a device has all weights and optimizer states
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

    def scope(self):
        # The weights may be too large for one device of the mesh.
        try:
            return jax.default_device(jax.local_devices(backend="cpu")[0])
        except RuntimeError:  # excluded by JAX_PLATFORMS
            return contextlib.nullcontext()

    def read_values(self, variables, *, everywhere=True):
        if not (everywhere or self.is_chief):
            variables = {k: v for k, v in variables.items() if not _has_whole(v.value)}
        return read_values(variables, self._whole)

    def gather(self, model):
        with self.scope():
            for variable in model.variables:
                if not _has_whole(variable.value):
                    variable.assign(self._whole(variable.value))

    def _whole(self, value):
        """Returns a NumPy array of a value whose parts other processes may have."""
        if _has_whole(value):
            return np.asarray(value)
        return multihost_utils.process_allgather(value, tiled=True)

    def shardings(self, variables):
        """Returns the shardings of weights."""
        return [
            NamedSharding(self.mesh, weight_layout(one.path, one.shape, self._shards))
            for one in variables
        ]

    def slot_shardings(self, optimizer, weights):
        """Returns the shardings of the variables of an optimizer of these weights."""
        layouts = [sharding.spec for sharding in self.shardings(weights)]
        found = slot_layouts(optimizer, weights, layouts, self._slot_shards)
        return [
            NamedSharding(self.mesh, found.get(id(one), PartitionSpec()))
            for one in optimizer.variables
        ]

    def values(self, variables, shardings):
        """Copies variables to the devices of the mesh, where they stay; returns their arrays."""
        for variable, sharding in zip(variables, shardings, strict=True):
            value = variable.value
            if value.sharding == sharding:
                continue
            if self.mesh.is_multi_process:
                # Processors of different kinds may compute different initial weights.
                value = multihost_utils.broadcast_one_to_all(np.asarray(value))
            variable.assign(self._on_mesh(value, sharding))
        return [variable.value for variable in variables]

    def replicate(self, value):
        """Copies a NumPy value to all devices of the mesh."""
        return self._on_mesh(np.asarray(value), self.replicated)

    def divide_rows(self, batch, axis=0):
        """Divides the rows of a batch, a dict of NumPy arrays, among the devices of the mesh."""
        rows = NamedSharding(self.mesh, PartitionSpec(*[None] * axis, DATA))
        return {name: self._on_mesh(x, rows) for name, x in batch.items()}

    def _on_mesh(self, array, sharding):
        if not self.mesh.is_multi_process:
            return jax.device_put(array, sharding)
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


ENGINE = JaxEngine


def _has_whole(value):
    """Whether this process has all parts of an array."""
    return value.is_fully_addressable or value.is_fully_replicated


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
    """Prevents TensorFlow, which tokenizes text, from reserving the memory of the GPUs."""
    try:
        hide_gpus()
    except RuntimeError as error:
        raise UserError(
            f"The JAX engine must be made before TensorFlow uses a GPU. Received: {error}"
        ) from error
