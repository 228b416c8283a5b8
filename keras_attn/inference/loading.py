"""Loading of trained models for inference."""

import os
from typing import TYPE_CHECKING, Any

from keras_attn.checkpoints.hub import require_folder
from keras_attn.convert import read_ready
from keras_attn.errors import forget_warnings
from keras_attn.registry import TASKS, family_and_task
from keras_attn.workdir import read_kind, run_folder

if TYPE_CHECKING:
    from keras_attn.tasks.contract import Task


def load(
    folder: str | os.PathLike[str], lowercase: bool | None = None, precision: str = "float32"
) -> Any:
    """Loads a trained model for inference.

    Args:
        folder: A workdir, or a checkpoint of another library; see `keras_attn.convert`.
        lowercase: Whether to lower-case text, if the checkpoint does not specify it.
        precision: Precision of weights and matrix products of models that generate text.
            "bfloat16" halves the memory of the weights, and is faster on processors that support
            it. Candidates with almost equal scores may be ranked differently, also by batch.

    Returns:
        An object for the task of the model (`TaskFields.loaded`), such as an `Embedder` for an
        encoder, a `Predictor` for a classifier or a `Generator` for a language model.

    Raises:
        UserError: If the folder does not contain a model, or the model does not support the
            precision.
    """
    forget_warnings()
    trained = read_ready(folder, lowercase)
    return TASKS[trained.task].load(trained, precision)


def task_of_workdir(folder: str) -> "Task | None":
    """Returns the `Task` of a workdir without loading its model; None for other folders."""
    require_folder(folder)
    known = family_and_task(read_kind(run_folder(folder)))
    return TASKS[known[1]] if known else None
