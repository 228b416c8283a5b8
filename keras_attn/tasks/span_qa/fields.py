"""Question answering: config fields and files."""

import dataclasses

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.tasks.finetuning.fields import LENGTH, joint_fields

NAME = "reading_comprehension"  # in data.task
METRICS = ("f1", "exact")
USUAL_LENGTH = 384  # Devlin et al. (2018) for SQuAD

_DATA = {
    "length": dataclasses.replace(LENGTH, help=f"{LENGTH.help} ({NAME}: {USUAL_LENGTH})"),
    "max_question": Field(64, "tokens of a question at most, in reading_comprehension", above=0),
    "stride": Field(
        int, "tokens from one window of a long passage to the next, in reading_comprehension; "
        "without: 128, or half a window if that is less", above=0),
    "max_answer": Field(30, "tokens of an answer at most, in reading_comprehension", above=0),
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    names=(NAME,),
    summary=f"{NAME}: find answers in passages, from files of SQuAD",
    joint={"data": _DATA},
    metrics=METRICS,
    files=("reading.json",),
    huggingface_class="ForQuestionAnswering",
)
