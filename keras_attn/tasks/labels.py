"""labels.json, the file with the names of classes in a workdir."""

from reprlib import repr as shorten

from keras_attn.checkpoints.huggingface_config import check_class_names
from keras_attn.counts import counted
from keras_attn.errors import UserError


def read_labels(workdir, num_classes=None, fields=()):
    """Reads labels.json.

    Args:
        workdir: `keras_attn.workdir.Workdir`.
        num_classes: Number of classes of the model, 1 for regression; None: not checked.
        fields: Names of further fields of the task.

    Returns:
        Dict of `names`, the names of the classes, [] for regression, and `fields`.

    Raises:
        UserError: If the file is missing or lacks a field, or the number of names is wrong.
    """
    path, found = workdir / "labels.json", workdir.read_json("labels.json")
    fields = ("names", *fields)
    if found is None or not found.keys() >= {*fields}:
        raise UserError(
            f"{path} must contain {' and '.join(fields)}. Received: another file, or none"
        )
    names = found["names"]
    check_class_names(names, "names", path)
    if num_classes not in (None, len(names) or 1):
        raise UserError(
            f"The model has {shorten(num_classes)} classes, so there must be as many names. "
            f"Received: {counted(len(names), 'name')} in {path}"
        )
    return found
