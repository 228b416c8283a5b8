"""Files of KerasHub presets."""

import contextlib
import os

from keras_attn.checkpoints.tensor_map import Tensors
from keras_attn.errors import UserError, first_line
from keras_attn.io.json_files import write_json

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.weights.h5", "tokenizer.json"
_LAYERS_OF_KERAS_2 = "_layer_checkpoint_dependencies/"


def class_of(found):
    """Returns the class that a JSON object of a preset describes."""
    return str(found.get("registered_name") or "")


def object_of(module, name, config):
    """Returns the JSON object of a class of KerasHub."""
    return {
        "module": f"keras_hub.src.{module}",
        "class_name": name,
        "config": config,
        "registered_name": f"keras_hub>{name}",
    }


def write_config(folder, family, name, arguments):
    """Writes the config.json of a backbone, and metadata.json, which every preset has.

    Args:
        folder: Folder of the preset.
        family: Package of the model in KerasHub, such as "bert".
        name: Class name of the backbone.
        arguments: Arguments of the backbone.
    """
    write_json(os.path.join(folder, "metadata.json"), {"keras_version": "3.12.0"})
    write_json(
        os.path.join(folder, CONFIG),
        object_of(
            f"models.{family}.{family}_backbone",
            name,
            {"name": f"{family}_backbone", "trainable": True, "dtype": "float32", **arguments},
        ),
    )


def read_tensors(path):
    """Returns the `Tensors` of a file.

    Raises:
        UserError: If the file is missing or damaged, or a dataset is not stored contiguously in it.
    """
    header, names = {}, {}

    def note(name, entry):
        if hasattr(entry, "shape"):
            # A compressed or unwritten dataset can be larger than the file.
            contiguous = entry.chunks is None and entry.id.get_storage_size() == entry.nbytes
            if entry.external or entry.is_virtual or not contiguous:
                raise UserError(
                    "All tensors must be stored uncompressed in the file itself. "
                    f"Received: {name} in {path}"
                )
            new = name.replace(_LAYERS_OF_KERAS_2, "layers/", 1)
            names[new], header[new] = name, (tuple(entry.shape), entry.dtype.name)

    with _opened(path) as file:
        file.visititems(note)  # does not follow links to other files

    def read_tensor(name):
        with _opened(path) as file:
            return file[names[name]][()]

    return Tensors(path, header, read_tensor)


@contextlib.contextmanager
def _opened(path):
    import h5py

    if not os.path.isfile(path):
        raise UserError(f"The preset lacks its weights {path}")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"Cannot read {path}: not a complete HDF5 file ({first_line(error)})"
        ) from error


def write_tensors(path, tensors):
    """Writes a file from an iterable of (name, array)."""
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in tensors:
            file[name] = array
