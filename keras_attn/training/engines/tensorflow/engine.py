"""The TensorFlow engine: the devices of a `tf.distribute` strategy."""

import functools

import numpy as np
import tensorflow as tf

from keras_attn.training import process_memory
from keras_attn.training.engines.contract import Engine
from keras_attn.training.engines.tensorflow.evaluation import TensorFlowEvaluator
from keras_attn.training.engines.tensorflow.gpu_memory import free_gpu_memory
from keras_attn.training.engines.tensorflow.step import TensorFlowStep
from keras_attn.training.engines.tensorflow.strategies import make_strategy


class TensorFlowEngine(Engine):
    """Runs steps under a `tf.distribute` strategy.

    Args:
        strategy, virtual_devices, tpu: See `make_strategy`.

    Attributes:
        strategy: The strategy.
    """

    def __init__(self, strategy="auto", virtual_devices=0, tpu=None):
        self.strategy = strategy = make_strategy(strategy, virtual_devices, tpu)
        self.num_replicas = strategy.num_replicas_in_sync
        self.is_chief = is_chief(strategy)
        self.fixed_shapes = isinstance(strategy, tf.distribute.TPUStrategy)
        self._workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)

    def describe(self):
        name = self.strategy.extended.worker_devices[0]
        return f"{self.num_replicas} x {tf.DeviceSpec.from_string(name).device_type}"

    def free_memory(self):
        names = self.strategy.extended.worker_devices
        if tf.DeviceSpec.from_string(names[0]).device_type == "GPU":
            return free_gpu_memory(names)
        free = process_memory.free_memory()
        return free and free // len(names)  # of this worker

    def peak_memory(self):
        if tf.config.list_logical_devices("GPU"):
            return tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return super().peak_memory()

    def scope(self):
        return self.strategy.scope()

    def make_step(self, model, optimizer, **options):
        return TensorFlowStep(self, model, optimizer, **options)

    def make_evaluator(self, model, **options):
        return TensorFlowEvaluator(self, model, **options)

    def broadcast(self, values):
        values = np.asarray(values, np.float64)
        if not self._workers:
            return values
        return self._sum(values if self.is_chief else np.zeros_like(values))

    def any(self, flag):
        if not self._workers:
            return bool(flag)
        return bool(self._sum(np.asarray([float(flag)]))[0] > 0)

    def _sum(self, values):
        return self._summation(tf.constant(values)).numpy()

    @functools.cached_property
    def _summation(self):
        replicas = len(self.strategy.extended.worker_devices)

        def first_replica_only(local):
            context = tf.distribute.get_replica_context()
            first = context.replica_id_in_sync_group % replicas == 0
            return local * tf.cast(first, local.dtype)

        def total(local):
            return self.strategy.reduce(
                "SUM", self.strategy.run(first_replica_only, args=(local,)), axis=None
            )

        return tf.function(total, autograph=False, reduce_retracing=True)


ENGINE = TensorFlowEngine


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes files: worker 0, or the only worker."""
    resolver = strategy.cluster_resolver
    if resolver is None or isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return resolver.task_type in (None, "", "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and not resolver.cluster_spec().as_dict().get("chief")
    )
