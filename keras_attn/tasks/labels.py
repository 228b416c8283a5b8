"""The file labels.json of workdirs whose models tell classes apart."""

from reprlib import repr as shorten

from keras_attn.checkpoints.huggingface_config import check_class_names
from keras_attn.counts import counted
from keras_attn.errors import UserError


def read_labels(workdir, num_classes=None, fields=()):
    """Reads labels.json.

    Args:
        workdir: `keras_attn.workdir.Workdir`.
        num_classes: Number of classes of the model, 1 for regression; None: not compared.
        fields: Names of the fields that the task has besides `names`.

    Returns:
        The content: `names` of the classes, none for regression, and `fields`.

    Raises:
        UserError: If the file is missing, lacks a field, or the names do not suit the model.
    """
    path, found = workdir / "labels.json", workdir.read_json("labels.json")
    fields = ("names", *fields)
    if found is None or not found.keys() >= {*fields}:
        raise UserError(
            f"{path} must be that of a classifier, with {' and '.join(fields)}. "
            "Received: something else, or no file"
        )
    names = found["names"]
    check_class_names(names, "names", path)
    if num_classes not in (None, len(names) or 1):
        raise UserError(
            f"names must have one name for each of the {shorten(num_classes)} classes "
            f"of the model. Received: {counted(len(names), 'name')} in {path}"
        )
    return found
