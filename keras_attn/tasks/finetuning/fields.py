"""Config fields that finetuning tasks share."""

from keras_attn.field import Field
from keras_attn.registry import FAMILIES
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    TEXT,
    TRAINING,
    of_libraries,
    run_fields,
)

_LABELLED = {
    "task": Field(
        str, "single_label, multilabel or regression; reading_comprehension: find answers in "
        "passages, from files of SQuAD; or a GLUE task, which sets columns, labels and metrics; "
        "without: single_label"),
    "train": Field(
        str, "docstrings, file, glob, list with commas, - for standard input (with data.format), "
        "tfds:NAME[:SPLIT], or the folder of data.task; without: data.task in TFDS"),
    "validation": Field(
        str, "as data.train (a TFDS name without a split: its validation); without: that of "
        "docstrings, or of data.task where data.train is a folder or left out; else data.holdout"),
    "holdout": Field(
        0.1, "share of the rows, or questions, of data.train kept for validation where there is "
        "no other; 0: none", low=0, below=1),
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
        bool, "whether the first line names the columns; without: if columns are named"),
    "limit": Field(int, "train on that many rows, drawn by data.seed", above=0),
    "seed": Field(
        int, "of the rows drawn and held out; without: train.seed, the first of several", low=0),
    "windows": Field(
        int, "read longer texts in windows of data.length tokens that share this many, and "
        "average their probabilities; if unset, used where more than 5 % of the texts exceed the "
        "model's positions", low=0),
    "by_length": Field(
        bool, "batches of texts of similar length, for less padding; of all lengths they learn "
        "sooner; without: True unless packed"),
    **TEXT,
    "length": Field(
        int, "tokens of a row at most; if unset, the longest text, up to the model's positions "
        "(reading_comprehension: 384)", above=0),
    "max_question": Field(64, "tokens of a question at most, in reading_comprehension", above=0),
    "stride": Field(
        int, "tokens from one window of a long passage to the next, in reading_comprehension; "
        "without: 128, or half a window if that is less", above=0),
    "max_answer": Field(30, "tokens of an answer at most, in reading_comprehension", above=0),
}
_CLASSIFIER = {
    "family": Field(str, "family of the model; unset: that of `pretrained`, or bert"),
    "size": Field(str, "without `pretrained`: tiny, mini, small, medium, base or large; tiny"),
    "dropout": Field(0.1, "share of values set to 0 in training", low=0, below=1),
    "pooling": Field(
        str, "cls: the first token (GPT-2 and XLNet: the last), or mean: of all tokens; if unset, "
        "as the pretrained classifier; cls for released models of GPT-2 and XLNet; else mean",
        choices=("cls", "mean")),
    "new_heads": Field(False, "start the pooler at random where `pretrained` lacks it"),
}
_GENTLE = {
    "epochs": Field(
        float, "passes over data.train; if neither steps, epochs nor minutes are set, chosen from "
        "the number of rows", above=0),
    "learning_rate": Field(
        float, "peak; if unset, chosen from the size of the model and what pretrained it", above=0),
    "seeds": Field(
        1, "number of runs, with seeds from train.seed on; the results are their mean, deviation "
        "and 95 % interval"),
    "class_weights": Field(False, "let each class weigh the same in loss and metrics of training"),
    "layer_decay": Field(1.0, "factor of the learning rate from each layer to the one below"),
    "freeze": Field(0, "lowest layers that stay as they are, and the embeddings with them", low=0),
}
_SEARCH = {
    "learning_rates": Field(
        str, "such as 2e-5,3e-5,5e-5: try each, and take the best by eval.metric"),
    "batch_sizes": Field(str, "such as 16,32: likewise, with each learning rate"),
}
CHOICE = {
    "metric": Field(
        str, "keep the weights with which it was best in validation: accuracy, f1, f1_macro, "
        "f1_micro, matthews, pearson, exact, …, loss; without: last ones"),
    "patience": Field(
        int, "end after that many evaluations without a better eval.metric; without: at the end "
        "of the run", above=0),
    "report": Field(
        True, "write report.html at the end: what is got right and wrong, and how sure"),
}

FINETUNING = {
    **run_fields(of_libraries(map(FAMILIES.fields, FAMILIES.registered))),
    "data": _LABELLED, "model": _CLASSIFIER,
    "train": {**TRAINING, **_GENTLE}, "search": _SEARCH,
    "eval": {**EVAL, "every": Field(500, EVAL["every"].help, low=0), **CHOICE},
    "checkpoint": CHECKPOINT,
}
