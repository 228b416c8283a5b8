"""Bahdanau: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import RECURRENT_TRANSLATOR

FIELDS = FamilyFields(
    name="bahdanau",
    model={
        "size": Field(
            str,
            "model size: tiny (128 units), mini (256), small (512) or base (1,000 units, "
            "embeddings of 620, as in the paper); if unset, from `pretrained`, else tiny",
        ),
        "units": Field(
            int,
            "hidden size of the decoder and of each encoder direction; if unset, from model.size",
            above=0,
        ),
        "embedding_dim": Field(int, "embedding size; if unset, from model.size", above=0),
        "readout_state": Field(
            "previous",
            "decoder state in the readout: previous (appendix and code of the paper) or current "
            "(its equation 4)",
            choices=("previous", "current"),
        ),
        **RECURRENT_TRANSLATOR,
    },
)
