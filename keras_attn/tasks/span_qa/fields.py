"""Extractive question answering: config fields and files."""

import dataclasses

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.tasks.finetuning.fields import LENGTH, joint_fields

NAME = "reading_comprehension"  # in data.task
METRICS = ("f1", "exact")
DEFAULT_LENGTH = 384  # Devlin et al. (2018) for SQuAD

_DATA = {
    "length": dataclasses.replace(LENGTH, help=f"{LENGTH.help} ({NAME}: {DEFAULT_LENGTH})"),
    "max_question": Field(64, "maximum question length in tokens (reading_comprehension)", above=0),
    "stride": Field(
        int,
        "document stride: tokens between the starts of consecutive windows of a long passage "
        "(reading_comprehension); if unset, 128 or half a window, whichever is less",
        above=0,
    ),
    "max_answer": Field(30, "maximum answer length in tokens (reading_comprehension)", above=0),
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    names=(NAME,),
    summary=f"{NAME}: extractive question answering on SQuAD files",
    joint={"data": _DATA},
    metrics=METRICS,
    formats={},
    outputs=(".json", ".jsonl"),
    files=("reading.json",),
    loaded="keras_attn.tasks.span_qa.answerer.Answerer",
    huggingface_class="ForQuestionAnswering",
)
