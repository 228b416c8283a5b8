"""Where the tasks of GLUE keep their columns, and what their labels and metrics are.

Reference:
    Wang et al., GLUE, 2019, table 1.
"""

import dataclasses
import os

import tensorflow as tf

from keras_attn.errors import UserError, nearest
from keras_attn.registry import TASKS as ALL_TASKS
from keras_attn.tasks.classification.labels import LabelSet


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: As in `task_of(name)`; TFDS has it as `glue/NAME`.
        text, text_pair, label: Columns of GLUE's own files, as `read_table` takes them.
        tfds_text, tfds_text_pair: The same in TFDS, where the label is `label`.
        label_names: In order of the class index; empty for regression.
        label_aliases: What GLUE's own files write for a label name.
        metrics: Names of `training.metrics`, the one that GLUE reports first.
        validation: Stem of the validation file.
    """

    name: str
    text: str
    text_pair: str | None
    label: str
    tfds_text: str
    tfds_text_pair: str | None
    label_names: tuple[str, ...]
    metrics: tuple[str, ...]
    numbered: bool = True
    validation: str = "dev"

    @property
    def regression(self):
        return not self.label_names

    @property
    def label_aliases(self):
        if not self.numbered:
            return {}
        return {str(number): name for number, name in enumerate(self.label_names)}

    def label_set(self):
        """Returns the `LabelSet`, which also knows the numbers in GLUE's files."""
        return LabelSet(self.label_names, self.label_aliases)

    def source(self, given, split):
        """Completes what the user gave as data.

        Args:
            given: None (TFDS), a folder with GLUE's files, or what `read_table` takes.
            split: "train" or "validation".
        """
        if not given:
            tfds_split = split
            if split == "validation":
                tfds_split = self.validation.replace("dev", "validation")
            return f"tfds:glue/{self.name}:{tfds_split}"
        if isinstance(given, str) and tf.io.gfile.isdir(given):
            stem = "train" if split == "train" else self.validation
            return os.path.join(given, f"{stem}.tsv")
        return given

    def columns(self, source, header=()):
        """Returns `text`, `text_pair` and `label` for `read_table` of that source.

        Args:
            source: As `source` completed it.
            header: Names in the first line of the file. CoLA's test file has those of TFDS,
                unlike its others.
        """
        in_tfds = {name for name in (self.tfds_text, self.tfds_text_pair) if name}
        own = {name for name in (self.text, self.text_pair) if name}
        renamed = in_tfds <= set(header) and not own <= set(header)
        if renamed or (isinstance(source, str) and source.startswith("tfds:")):
            return {"text": self.tfds_text, "text_pair": self.tfds_text_pair, "label": "label"}
        return {"text": self.text, "text_pair": self.text_pair, "label": self.label}


_ENTAILMENT = ("entailment", "not_entailment")
_TWO = ("sentence1", "sentence2")
_ROWS = [
    Task("sst2", "sentence", None, "label", "sentence", None,
         ("negative", "positive"), ("accuracy",)),
    Task("cola", "3", None, "1", "sentence", None,
         ("unacceptable", "acceptable"), ("matthews", "accuracy")),
    Task("rte", *_TWO, "label", *_TWO, _ENTAILMENT, ("accuracy",), numbered=False),
    Task("mrpc", "#1 String", "#2 String", "Quality", *_TWO,
         ("not_equivalent", "equivalent"), ("f1", "accuracy")),
    Task("stsb", *_TWO, "score", *_TWO, (), ("pearson", "spearman")),
    Task("qnli", "question", "sentence", "label", "question", "sentence",
         _ENTAILMENT, ("accuracy",), numbered=False),
    Task("qqp", "question1", "question2", "is_duplicate", "question1", "question2",
         ("not_duplicate", "duplicate"), ("f1", "accuracy")),
    Task("mnli", *_TWO, "gold_label", "premise", "hypothesis",
         ("entailment", "neutral", "contradiction"), ("accuracy",),
         numbered=False, validation="dev_matched"),
    Task("wnli", *_TWO, "label", *_TWO, ("not_entailment", "entailment"), ("accuracy",)),
]  # fmt: skip
TASKS = {row.name: row for row in _ROWS}
# What `data.task` may be besides: kinds of task, whose columns are told by fields.
KINDS = ("single_label", "multilabel", "regression")


def task_of(name):
    """The `Task` of that name; None for None and for one of `KINDS`.

    Raises:
        UserError: For an unknown name, with the nearest.
    """
    if name is None or name in KINDS:
        return None
    if name not in TASKS:
        names = (
            name
            for task in ALL_TASKS
            for name in ALL_TASKS.fields(task).names
            if ALL_TASKS.fields(task).command == "finetune"
        )
        known = (*names, *TASKS)
        raise UserError(
            f"data.task must be one of {', '.join(known)}. "
            f"Received: data.task={name!r}{nearest(name, known)}"
        )
    return TASKS[name]
