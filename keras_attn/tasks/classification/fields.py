"""Classification of texts and of pairs of texts: config fields, options and files."""

from keras_attn.declarations import Option, TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DISTILLATION
from keras_attn.tasks.classification import glue
from keras_attn.tasks.finetuning.fields import joint_fields
from keras_attn.tasks.finetuning.ranking import RETRIEVAL

_DATA = {
    "text": Field(str, "text column: a name, or an index from 0"),
    "text_pair": Field(str, "column of the second text; if unset, single texts"),
    "label": Field(
        str,
        "label column; with data.task=multilabel a JSON list, or labels separated by "
        "data.label_separator",
    ),
    "label_separator": Field(",", "separator of the labels of an example (multilabel)"),
    "positive": Field(
        str,
        "positive class of the metric f1 in binary classification; if unset, the second "
        "class in alphabetical order",
    ),
    "group": Field(
        str,
        "column of the group of a row, such as the query of a document; adds metrics of reranking "
        "by the probability of the positive class, and holds out whole groups; if unset, none",
    ),
    "regression": Field(False, "same as data.task=regression"),
    "format": Field(
        str,
        "file format: tsv, quoted_tsv (quoted as in CSV), csv, jsonl, parquet or label_text; "
        "if unset, detected from the file name",
    ),
    "header": Field(
        bool,
        "whether the first line contains the column names; if unset, True if columns are "
        "given by name",
        chosen=True,
    ),
    "windows": Field(
        int,
        "overlap in tokens of the windows of data.length tokens in which longer texts are "
        "read, with averaged probabilities; if unset, windows are used where more than 5 % of the "
        "texts exceed the model's positions",
        low=0,
        chosen=True,
    ),
}
_MODEL = {
    "pooling": Field(
        str,
        "pooling of the token vectors: cls (first token; GPT-2 and XLNet: last token) or mean "
        "(all tokens); if unset, as in a pretrained classifier, cls for released models other than "
        "BERT, and for attentive_lstm, lstmn, attentive_cnn, hierarchical and abcnn, else mean",
        choices=("cls", "mean"),
        chosen=True,
    ),
}
_TRAINING = {
    "class_weights": Field(False, "balanced class weights in the training loss and metrics"),
    **DISTILLATION,
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    names=("single_label", "multilabel", "regression"),
    summary="single_label, multilabel or regression, or a GLUE task, which sets columns, labels "
    "and metrics",
    configs={name: f"glue:{name}" for name in glue.GLUE_TASKS},
    joint={"data": _DATA, "model": _MODEL, "train": _TRAINING},
    metrics=(
        "accuracy",
        "f1",
        "f1_macro",
        "f1_micro",
        "matthews",
        "pearson",
        "spearman",
        "mean_squared_error",
        *RETRIEVAL,
    ),
    lower_is_better=("mean_squared_error",),
    options={
        "predict": {
            "keep_columns": Option(
                str, "Columns of --input to copy to the output, separated by commas."
            )
        },
        "evaluate": {
            "label": Option(str, "Label column; if unset, as in training.", flag="label_column"),
            "group": Option(str, "Group column; if unset, as in training.", flag="group_column"),
        },
        "export": {
            "pairs": Option(
                bool,
                "Whether the exported model accepts pairs of texts; only for checkpoints of "
                "other libraries, which do not record it.",
            )
        },
    },
    outputs=(".tsv", ".csv", ".jsonl"),
    files=("labels.json",),
    loaded="keras_attn.tasks.classification.predictor.Predictor",
    huggingface_class="ForSequenceClassification",
)
