"""Variables of a model and its optimizer by path, and their values."""

import hashlib

import keras
import numpy as np

from keras_attn.errors import UserError


def is_seed(variable):
    """Whether a Keras variable is the state of a seed generator."""
    return variable.path.split("/")[-1] == "seed_generator_state"


def variables_by_path(model, optimizer=None, loss_scale=None):
    """The variables a checkpoint holds: weights, optimizer slots and the loss scale, by path.

    Seeds are left out: the trainer derives them from the run's seed and step.
    """
    named = [(f"model/{v.path}", v) for v in model.variables if not is_seed(v)]
    # The learning rate is set anew every step, from the schedule.
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
        twice = sorted({path for path in paths if paths.count(path) > 1})
        raise ValueError(f"Variable paths must be unique. Received: twice={twice}")
    return by_path


def read_values(variables):
    """Copies variables (a dict by path) to NumPy arrays."""
    # PyTorch gives no array of what has a gradient; TensorFlow shares the memory of the others.
    return {
        path: np.asarray(keras.ops.stop_gradient(keras.ops.convert_to_tensor(v.value)))
        for path, v in variables.items()
    }


def assign_values(variables, values, source):
    """Sets variables from arrays; a missing, extra or misshapen one is an error."""
    check_values(variables, values, source)
    for path, variable in variables.items():
        variable.assign(values[path])


def check_values(variables, values, source):
    """Raises UserError if an array is missing, left over, misshapen or of another dtype."""
    missing = sorted(set(variables) - set(values))
    extra = sorted(set(values) - set(variables))
    if missing or extra:
        raise UserError(
            f"{source} must hold exactly the model's variables. Received: "
            f"missing={_few(missing)}, unknown={_few(extra)}"
        )
    for path, variable in variables.items():
        value, dtype = values[path], keras.backend.standardize_dtype(variable.dtype)
        if tuple(value.shape) != tuple(variable.shape):
            raise UserError(
                f"{source} must hold {path} with shape {tuple(variable.shape)}. "
                f"Received: shape={tuple(value.shape)}"
            )
        # Weights are float32 in files, whatever the precision that they are used in.
        wanted = "float32" if "float" in dtype else dtype
        found = str(getattr(value, "dtype", "float32"))
        if found != wanted:
            raise UserError(f"{source} must hold {path} as {wanted}. Received: {found}")


def _few(names):
    return names if len(names) <= 3 else [*names[:3], f"… {len(names) - 3} more"]


def digest(values):
    """SHA-256 over names, shapes and bytes: equal if and only if all bits are."""
    sha = hashlib.sha256()
    for path in sorted(values):
        array = np.ascontiguousarray(values[path])
        sha.update(f"{path} {array.dtype} {array.shape}\n".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
