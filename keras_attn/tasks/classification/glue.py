"""Columns, labels and metrics of the GLUE tasks, and of labeled data sets like them.

A row of `_ROWS` is all that a data set needs. The module does not import TensorFlow, because the
config files import it.

Reference:
    Wang et al., GLUE, 2019, table 1.
"""

import dataclasses
import os

from keras_attn.errors import UserError, nearest
from keras_attn.io import gfile
from keras_attn.registry import TASKS


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """A GLUE task, or a labeled data set like it.

    Attributes:
        name: Value of `data.task`, and of the argument of `configs/glue.py`.
        text, text_pair, label: Columns of the original files; see `read_table`.
        tfds_text, tfds_text_pair: Columns in TFDS, where the label column is `label`.
        label_names: Names of the classes in the order of their indices; () for regression.
        metrics: Names of the metrics; the first one is the main metric of GLUE.
        numbered: Whether the original files contain class indices instead of names.
        validation: Name of the validation file without its extension.
        tfds: Name in TFDS; "": `glue/NAME`.
        on_bad_text: Default of `data.on_bad_text`.
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
    tfds: str = ""
    on_bad_text: str = "error"

    @property
    def regression(self):
        return not self.label_names

    @property
    def label_aliases(self):
        """Dict from the labels in the original files to the names of the classes."""
        if not self.numbered:
            return {}
        return {str(number): name for number, name in enumerate(self.label_names)}

    def label_set(self):
        """Returns the `LabelSet`, with the class indices of the original files as aliases."""
        from keras_attn.tasks.classification.labels import LabelSet

        return LabelSet(self.label_names, self.label_aliases)

    def source(self, given, split):
        """Returns the source of a split for `read_table`.

        Args:
            given: None for TFDS, a folder with the original files, or a source of `read_table`.
            split: "train" or "validation".
        """
        if not given:
            tfds_split = split
            if split == "validation":
                tfds_split = self.validation.replace("dev", "validation")
            return f"tfds:{self.tfds or f'glue/{self.name}'}:{tfds_split}"

        if isinstance(given, str) and gfile.isdir(given):
            stem = "train" if split == "train" else self.validation
            return os.path.join(given, f"{stem}.tsv")
        return given

    def columns(self, source, header=()):
        """Returns the columns `text`, `text_pair` and `label` of a source.

        Args:
            source: Source that the method `source` returned.
            header: Column names in the first line of the file. The test file of CoLA has those of
                TFDS, unlike its other files.
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
    GlueTask("sst2", "sentence", None, "label", "sentence", None,
         ("negative", "positive"), ("accuracy",)),
    GlueTask("cola", "3", None, "1", "sentence", None,
         ("unacceptable", "acceptable"), ("matthews", "accuracy")),
    GlueTask("rte", *_TWO, "label", *_TWO, _ENTAILMENT, ("accuracy",), numbered=False),
    GlueTask("mrpc", "#1 String", "#2 String", "Quality", *_TWO,
         ("not_equivalent", "equivalent"), ("f1", "accuracy")),
    GlueTask("stsb", *_TWO, "score", *_TWO, (), ("pearson", "spearman")),
    GlueTask("qnli", "question", "sentence", "label", "question", "sentence",
         _ENTAILMENT, ("accuracy",), numbered=False),
    GlueTask("qqp", "question1", "question2", "is_duplicate", "question1", "question2",
         ("not_duplicate", "duplicate"), ("f1", "accuracy"),
         on_bad_text="skip"),  # three rows of train.tsv are truncated
    GlueTask("mnli", *_TWO, "gold_label", "premise", "hypothesis",
         ("entailment", "neutral", "contradiction"), ("accuracy",),
         numbered=False, validation="dev_matched"),
    GlueTask("wnli", *_TWO, "label", *_TWO, ("not_entailment", "entailment"), ("accuracy",)),
]  # fmt: skip
GLUE_TASKS = {row.name: row for row in _ROWS}
# The other values of `data.task`, whose columns are config fields.
KINDS = ("single_label", "multilabel", "regression")


def glue_task(name):
    """Returns the `GlueTask` of a name; None for None and for one of `KINDS`.

    Raises:
        UserError: If the name is unknown.
    """
    if name is None or name in KINDS:
        return None
    if name not in GLUE_TASKS:
        names = (
            name
            for task in TASKS
            for name in TASKS.fields(task).names or (task,)
            if TASKS.fields(task).command == "finetune"
        )
        known = (*names, *GLUE_TASKS)
        raise UserError(
            f"data.task must be one of {', '.join(known)}. "
            f"Received: data.task={name!r}{nearest(name, known)}"
        )
    return GLUE_TASKS[name]
