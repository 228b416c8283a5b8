"""Declaration of the JAX engine, which does not import JAX."""

import sys

from keras_attn.declarations import EngineFields
from keras_attn.errors import UserError
from keras_attn.field import Field

_OPTIONS = {
    "devices": Field(0, "Number of devices of this process; 0: all.", low=0),
    "mesh": Field(
        str,
        "Sizes of the axes of the mesh of devices, such as data:4,model:2: the rows of a batch are "
        "divided along data, weights along model; unset: data has all devices.",
    ),
    "shard_optimizer": Field(
        False, "Divide the optimizer slots among the devices along data (ZeRO-1)."
    ),
    "distributed": Field(
        False, "Detect the processes of the run from SLURM, Open MPI, Kubernetes or Cloud TPU."
    ),
    "coordinator": Field(
        str, "Address HOST:PORT of process 0, for several processes without a supported cluster."
    ),
    "processes": Field(int, "Number of processes; requires --coordinator.", low=1),
    "process": Field(int, "Index of this process; requires --coordinator.", low=0),
}
_ERRORS = "JaxRuntimeError", "XlaRuntimeError", "ValueError"  # that JAX raises
# Parts of errors that are raised when the connection to another process is lost.
_CONNECTION_ERRORS = (
    *("oordination service", "eartbeat", "onnection", "Gloo", "NCCL"),
    *("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED"),
)


def check_several_runs(distributed=False, coordinator=None, **options):
    """Raises a `UserError` if one process cannot train several models consecutively."""
    if distributed or coordinator:
        raise UserError(
            "train.seeds and search require a single process. "
            f"Received: distributed={distributed}, coordinator={coordinator}"
        )


def in_cluster():
    """Returns whether this process is one of several."""
    jax = sys.modules.get("jax")
    return bool(jax) and jax.distributed.is_initialized()


def lost_worker(error):
    """Returns the line of an error that reports a lost process, or None."""
    if not in_cluster() or type(error).__name__ not in _ERRORS:
        return None
    lines = str(error).splitlines()
    return next((line for line in lines if any(word in line for word in _CONNECTION_ERRORS)), None)


FIELDS = EngineFields(
    backend="jax",
    options=_OPTIONS,
    fixed={"train.jit": True},  # jax.jit always compiles
    check_several_runs=check_several_runs,
    in_cluster=in_cluster,
    lost_worker=lost_worker,
)
