"""Tagging: config fields and files."""

from keras_attn.declarations import TABLES, Option, TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DISTILLATION
from keras_attn.tasks.finetuning.fields import joint_fields

METRICS = ("f1", "precision", "recall", "accuracy")
FORMATS = ("conll", "conllu", "jsonl")
SCHEMES = ("iob1", "iob2", "iobes", "raw")

_DATA = {
    "scheme": Field(
        str,
        "tagging scheme of the data (tagging): iob1, iob2, iobes (or BILOU), or raw for tags that "
        "are not entities, such as parts of speech; if unset, detected from data.train",
        choices=SCHEMES,
        chosen=True,
    ),
}
_MODEL = {
    "crf": Field(False, "whether to add a conditional random field (tagging)"),
    "word_vector": Field(
        "first",
        "hidden state that represents a word of several subwords: first, or mean (tagging)",
        choices=("first", "mean"),
    ),
}

_TRAINING = {
    "crf_learning_rate": Field(
        0.01,
        "peak learning rate of the conditional random field, in place of "
        "train.learning_rate (tagging)",
        above=0,
    ),
    **DISTILLATION,
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    summary="tagging: a label for each word, from CoNLL, CoNLL-U or JSONL files "
    "(data.format=conll, conllu or jsonl; data.text and data.label are columns of these)",
    joint={"data": _DATA, "model": _MODEL, "train": _TRAINING},
    metrics=METRICS,
    formats={
        "evaluate": FORMATS,
        "predict": tuple(
            dict.fromkeys([*FORMATS, *(name for name in TABLES if name != "label_text")])
        ),
    },
    outputs=(".jsonl", ".conll"),
    options={
        "evaluate": {
            "label": Option(str, "Label column; if unset, as in training.", flag="label_column"),
            "scheme": Option(
                str, "Tagging scheme of --data; if unset, as in training.", choices=SCHEMES
            ),
        }
    },
    files=("labels.json",),
    loaded="keras_attn.tasks.tagging.tagger.Tagger",
    huggingface_class="ForTokenClassification",
)
