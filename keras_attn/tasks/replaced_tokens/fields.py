"""Replaced-token detection: config fields."""

from keras_attn.declarations import TaskFields
from keras_attn.field import Field
from keras_attn.tasks.pretraining.fields import MASKED, pretraining_fields

_DATA = {
    "task": Field(
        "replaced_tokens",
        "training objective: detection of tokens that a generator has replaced",
        choices=("replaced_tokens",),
    ),
    **MASKED,
}
_MODEL = {
    "generator_fraction": Field(
        float,
        "size of the generator: fraction of the hidden size, feed-forward size and attention heads "
        "of the discriminator; if unset, from `pretrained`, else 0.25",
        above=0,
        high=1,
    ),
    "discriminator_weight": Field(
        float,
        "weight of the discriminator's loss; if unset, from `pretrained`, else 50",
        low=0,
    ),
}


def _fields(family):
    fields = pretraining_fields(family, _DATA)
    return {**fields, "model": {**fields["model"], **_MODEL}}


FIELDS = TaskFields(
    command="pretrain",
    family="electra",
    config=_fields,
    loaded="keras_attn.tasks.replaced_tokens.detector.ReplacedTokenDetector",
    huggingface_class="ForPreTraining",
    convert_heads={"discriminator": {"generator_fraction": None}},
)
