"""Variables of a model and its optimizer by path, and their values."""

import hashlib

import keras
import numpy as np

from keras_attn.errors import UserError, listed


def is_seed(variable):
    """Whether a Keras variable is the state of a seed generator."""
    return variable.path.split("/")[-1] == "seed_generator_state"


def variables_by_path(model, optimizer=None, loss_scale=None):
    """Returns the variables of a checkpoint by path: weights, optimizer slots and loss scale.

    Seeds are not included: engines derive them from the seed and the step of the run.
    """
    named = [(f"model/{v.path}", v) for v in model.variables if not is_seed(v)]
    # The learning rate is not included: the schedule sets it in every step.
    slots = (
        [v for v in optimizer.variables if v.path.split("/")[-1] != "learning_rate"]
        if optimizer
        else []
    )
    named += [(f"optimizer/{v.path}", v) for v in slots]
    named += [(v.path, v) for v in (loss_scale.variables if loss_scale else ())]
    by_path = dict(named)
    if len(by_path) != len(named):
        paths = [path for path, _ in named]
        duplicates = sorted({path for path in paths if paths.count(path) > 1})
        raise ValueError(f"Variable paths must be unique. Received: duplicates={duplicates}")
    return by_path


def read_values(variables, to_numpy=None):
    """Converts variables to NumPy arrays, int32 to int64.

    Args:
        variables: Keras variables by path.
        to_numpy: Function that converts the value of a variable.
    """
    to_numpy, values = to_numpy or _to_numpy, {}
    for path, v in variables.items():
        value = to_numpy(v.value)
        # Counters are int64 on TensorFlow, and int32 on JAX.
        values[path] = value.astype(np.int64) if value.dtype == np.int32 else value
    return values


def _to_numpy(value):
    # PyTorch cannot convert tensors that require gradients.
    return np.asarray(keras.ops.stop_gradient(keras.ops.convert_to_tensor(value)))


def assign_values(variables, values, source):
    """Assigns arrays to variables, after `check_values`."""
    check_values(variables, values, source)
    for path, variable in variables.items():
        variable.assign(values[path])


def check_values(variables, values, source):
    """Raises a `UserError` if an array is missing or unknown, or has another shape or dtype."""
    missing = sorted(set(variables) - set(values))
    extra = sorted(set(values) - set(variables))
    if missing or extra:
        raise UserError(
            f"{source} must contain exactly the variables of the model. Received: "
            f"missing: {listed(missing)}; unknown: {listed(extra)}"
        )
    for path, variable in variables.items():
        value, dtype = values[path], keras.backend.standardize_dtype(variable.dtype)
        if tuple(value.shape) != tuple(variable.shape):
            raise UserError(
                f"{source} must contain {path} with shape {tuple(variable.shape)}. "
                f"Received: shape={tuple(value.shape)}"
            )
        # Files contain float32 weights and int64 counters, whatever dtypes the variables have.
        wanted = "float32" if "float" in dtype else {"int32": "int64"}.get(dtype, dtype)
        found = str(getattr(value, "dtype", "float32"))
        if found != wanted:
            raise UserError(f"{source} must contain {path} as {wanted}. Received: {found}")


def digest(values):
    """Returns the SHA-256 over names, dtypes, shapes and bytes."""
    sha = hashlib.sha256()
    for path in sorted(values):
        array = np.ascontiguousarray(values[path])
        sha.update(f"{path} {array.dtype} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
