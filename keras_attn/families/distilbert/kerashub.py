"""Presets of KerasHub: a `DistilBertBackbone` and its tokenizer."""

from keras_attn.families.distilbert.family import FAMILY, FIXED
from keras_attn.families.encoder_presets import EncoderPresets

_PRESETS = EncoderPresets(
    family=FAMILY,
    package="distil_bert",
    model="DistilBert",
    fixed={**FIXED, "activation": "gelu_erf", "use_pooler": False},
)
read, write = _PRESETS.read, _PRESETS.write
