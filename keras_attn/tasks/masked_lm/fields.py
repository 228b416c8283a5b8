"""Masked language modeling: config fields."""

import dataclasses

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DISTILLATION
from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

DATA = {
    "task": Field(
        "masked_lm", "training objective: masked language modeling", choices=("masked_lm",)
    ),
    **MASKED,
    "vocab": dataclasses.replace(
        MASKED["vocab"],
        help="vocabulary file, or a folder that contains it; if unset, from `pretrained` or from "
        "the prepared folder data.train, else from train.teacher, else trained on data.train",
    ),
}

FIELDS = TaskFields(
    command="pretrain",
    family="bert",
    config=lambda family: pretraining_fields(family, DATA, DISTILLATION),
    loaded="keras_attn.tasks.mask_filler.MaskFiller",
    convert_heads={"pretraining": {"next_sentence": True}, "masked_lm": {"next_sentence": False}},
)
