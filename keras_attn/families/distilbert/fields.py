"""DistilBERT: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import INITIAL_WEIGHTS, ONE_SEGMENT, SHAPE

_MODEL = {
    "size": Field(
        str,
        "model size: tiny, mini, small, medium, base or large; if unset, from `pretrained`, "
        "else tiny",
    ),
    **SHAPE,
    "max_length": Field(
        int, "maximum sequence length (position embeddings); if unset, 512", above=0
    ),
    "activation": Field(
        str, "activation of the feed-forward layers: gelu_erf or gelu_tanh; if unset, gelu_erf"
    ),
    **INITIAL_WEIGHTS,
    "dropout": Field(
        float,
        "dropout rate; if unset, from `pretrained`, else 0 (DistilBERT: 0.1)",
        low=0,
        below=1,
    ),
}

FIELDS = FamilyFields(
    name="distilbert",
    libraries=("transformers", "sentence-transformers", "KerasHub"),
    formats=("workdir", "huggingface", "sentence_transformers", "kerashub"),
    huggingface_types=("distilbert",),
    kerashub_backbone="keras_hub>DistilBertBackbone",
    model=_MODEL,
    data=ONE_SEGMENT,
)
