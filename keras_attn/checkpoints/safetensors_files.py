"""Safetensors files in folders of `transformers`."""

import contextlib
import importlib
import os
import re
from reprlib import repr as shorten

from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.errors import UserError, first_line
from keras_attn.io.files import check_regular
from keras_attn.io.json_files import read_object

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def pickle_error(path):
    """Returns the error for a pickle, with a command that converts it safely."""
    name = os.path.basename(path)
    # A pattern for all shards. Unusual file names are not pasted into the command.
    files = re.sub(r"-\d+-of-\d+", "-*", name) if re.fullmatch(r"[\w.-]+", name) else "FILE"
    return UserError(
        f"{path} is a pickle, which can run code when it is loaded. To convert it to {WEIGHTS} "
        'safely, run in its folder: python -c "import glob, torch, safetensors.torch as s; '
        f"s.save_file({{k: v.contiguous().clone() for f in glob.glob('{files}') or ['{files}'] "
        f"for k, v in torch.load(f, map_location='cpu', weights_only=True).items()}}, "
        f"'{WEIGHTS}')\""
    )


def read_tensors(folder):
    """Returns the `Tensors` of model.safetensors, or of the shards in its index.

    Raises:
        UserError: If the weights are missing, damaged or a pickle.
    """
    single, index = os.path.join(folder, WEIGHTS), os.path.join(folder, INDEX)
    if os.path.isfile(single):
        files = [WEIGHTS]
    elif os.path.isfile(index):
        files = _shards_of(index)
    else:
        pickles = sorted(
            (name for name in os.listdir(folder) if name.endswith(PICKLES)),
            key=lambda name: (not name.startswith("pytorch_model"), name),
        )
        if pickles:
            raise pickle_error(os.path.join(folder, pickles[0]))
        raise UserError(f"{folder} lacks {WEIGHTS}; pickles are neither read nor downloaded")
    header, place = {}, {}
    for name in files:
        path = os.path.join(folder, name)
        with _opened(path) as file:
            for key in file.keys():  # noqa: SIM118 - not a dict
                tensor = file.get_slice(key)
                if key in header:
                    raise UserError(
                        f"Each tensor must be in one shard. Received: {key} again in {path}"
                    )
                dtype = tensor.get_dtype()
                header[key] = (tuple(tensor.get_shape()), _DTYPES.get(dtype, dtype))
                place[key] = path

    def read_tensor(name):
        with _opened(place[name]) as file:
            return file.get_slice(name)

    return Tensors(folder, header, read_tensor)


def write_tensors(folder, tensors):
    """Writes model.safetensors from an iterable of (name, array).

    Raises:
        OSError: If it cannot.
    """
    save_file = _safetensors("safetensors.numpy").save_file
    try:
        save_file(dict(tensors), os.path.join(folder, WEIGHTS), metadata={"format": "pt"})
    except _safetensors("safetensors").SafetensorError as error:
        raise OSError(str(error)) from error


def _shards_of(index):
    found = read_object(index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise UserError(f"{index} lacks the field weight_map")
    files = sorted({str(name) for name in found.values()})
    for name in files:
        if os.path.basename(name) != name or not name.endswith(".safetensors"):
            raise UserError(
                "Shards must be .safetensors files in the folder of their index. "
                f"Received: {shorten(name)} in {index}"
            )
    return files


def _safetensors(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            "Folders of transformers require safetensors. Run: pip install safetensors"
        ) from error


@contextlib.contextmanager
def _opened(path):
    safetensors = _safetensors("safetensors")
    check_regular(path)
    try:
        with safetensors.safe_open(path, "np") as file:
            yield file
    except UserError:
        raise
    except (safetensors.SafetensorError, OSError, ValueError, TypeError) as error:
        raise UserError(
            f"Cannot read {path}: not a complete safetensors file ({first_line(error)})"
        ) from error
