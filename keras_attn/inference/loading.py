"""Trained models, ready for use: texts in, vectors, labels, answers or texts out."""

import os
from typing import TYPE_CHECKING, Any

from keras_attn.convert import read_ready
from keras_attn.errors import forget_warnings
from keras_attn.registry import TASKS, family_and_task
from keras_attn.workdir import read_kind, run_folder

if TYPE_CHECKING:
    from keras_attn.tasks.contract import Task


def load(
    folder: str | os.PathLike[str], lowercase: bool | None = None, precision: str = "float32"
) -> Any:
    """Loads a trained model.

    Args:
        folder: A workdir, or a folder of another library; see `keras_attn.convert`.
        lowercase: Whether text is lower-cased, for a folder that does not say.
        precision: Of weights and products of what makes text; with "bfloat16" weights take half
            the memory, and processors that multiply it less time. Near-ties may fall otherwise,
            also by batch.

    Returns:
        An `Embedder`; a `MaskFiller`, if it has a masked-LM head; a `Predictor`, if it classifies;
        an `Answerer`, if it reads; a `Translator`; a `Generator`, if it tells the next token.

    Raises:
        UserError: If the folder holds no model, or `precision` is unknown or of no use to it.
    """
    forget_warnings()
    trained = read_ready(folder, lowercase)
    return TASKS[trained.task].load(trained, precision)


def task_of_workdir(folder: str) -> "Task | None":
    """Returns the `Task` of a workdir, before its model is loaded; None of another folder."""
    known = family_and_task(read_kind(run_folder(folder)))
    return TASKS[known[1]] if known else None
