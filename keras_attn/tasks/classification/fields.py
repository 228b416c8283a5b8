"""Classification of texts and of pairs of texts: config fields, options and files."""

from keras_attn.declarations import Option, TaskFields
from keras_attn.field import Field
from keras_attn.tasks.finetuning.fields import joint_fields

_DATA = {
    "text": Field(str, "column of the text: a name, or a number from 0"),
    "text_pair": Field(str, "column of the second text"),
    "label": Field(
        str, "column of the label; of multilabel a JSON list, or labels with data.label_separator"),
    "label_separator": Field(",", "between the labels of a row of multilabel"),
    "positive": Field(
        str, "of two classes, the one that f1 is of; without: the second by alphabet"),
    "regression": Field(False, "as data.task=regression"),
    "format": Field(
        str, "tsv, quoted_tsv (with CSV's quotes), csv, jsonl, parquet, label_text; without: by "
        "the file's name"),
    "header": Field(
        bool, "whether the first line names the columns; without: if columns are named",
        chosen=True),
    "windows": Field(
        int, "read longer texts in windows of data.length tokens that share this many, and "
        "average their probabilities; if unset, used where more than 5 % of the texts exceed the "
        "model's positions", low=0, chosen=True),
}
_MODEL = {
    "pooling": Field(
        str, "cls: the first token (GPT-2 and XLNet: the last), or mean: of all tokens; if unset, "
        "as the pretrained classifier; cls for released models of GPT-2 and XLNet; else mean",
        choices=("cls", "mean"), chosen=True),
}
_TRAINING = {
    "class_weights": Field(False, "let each class weigh the same in loss and metrics of training"),
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    names=("single_label", "multilabel", "regression"),
    summary="single_label, multilabel or regression, or a GLUE task, which sets columns, labels "
            "and metrics",
    joint={"data": _DATA, "model": _MODEL, "train": _TRAINING},
    metrics=("accuracy", "f1", "f1_macro", "f1_micro", "matthews", "pearson", "spearman",
             "mean_squared_error"),
    options={
        "evaluate": {"label": Option(
            str, "Column of the label; default: that of training.", flag="label_column")},
        "export": {"pairs": Option(
            bool, "Whether it takes pairs of texts; for a model of another library, which does "
            "not say.")},
    },
    files=("labels.json",),
    huggingface_class="ForSequenceClassification",
)
