"""Declaration of the TensorFlow engine, which does not import TensorFlow."""

import os

from keras_attn.declarations import EngineFields
from keras_attn.errors import UserError
from keras_attn.field import Field

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
_OPTIONS = {
    "strategy": Field(
        "auto",
        "Distribution strategy; auto uses the cluster in TF_CONFIG, or all GPUs.",
        STRATEGIES,
    ),
    "virtual_devices": Field(
        0, "Number of virtual CPU devices, to try the mirrored strategy; 0: none.", low=0
    ),
    "tpu": Field(str, "Address of the TPU; if unset, the TPU of this machine."),
}
# Errors that a worker raises when it loses the connection to another worker.
_CONNECTION_ERRORS = (
    "UnavailableError",
    "AbortedError",
    "DeadlineExceededError",
    "CancelledError",
    "InternalError",
    "FailedPreconditionError",
)
_CONNECTION_WORDS = ("unhealthy", "/task:", "onnection", "aborted", "recvmsg", "ocket", "eartbeat")


def check_several_runs(strategy="auto", **options):
    """Raises a `UserError` if one process cannot train several models consecutively."""
    if in_cluster() or strategy in ("multi_worker", "tpu"):
        raise UserError(
            "train.seeds and search require a single machine without a TPU. "
            f"Received: strategy={strategy}, TF_CONFIG={os.environ.get('TF_CONFIG')}"
        )


def in_cluster():
    """Returns whether this process is one of several workers."""
    return bool(os.environ.get("TF_CONFIG"))


def lost_worker(error):
    """Returns the line of an error that reports a lost worker, or None."""
    if not in_cluster() or type(error).__name__ not in _CONNECTION_ERRORS:
        return None
    return next(
        (
            line
            for line in str(error).splitlines()
            if any(word in line for word in _CONNECTION_WORDS)
        ),
        None,
    )


FIELDS = EngineFields(
    backend="tensorflow",
    options=_OPTIONS,
    check_several_runs=check_several_runs,
    in_cluster=in_cluster,
    lost_worker=lost_worker,
)
