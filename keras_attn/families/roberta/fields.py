"""RoBERTa: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS, INITIAL_WEIGHTS, ONE_SEGMENT, SHAPE

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
        float, "dropout rate; if unset, from `pretrained`, else 0 (RoBERTa: 0.1)", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="roberta",
    libraries=("transformers", "sentence-transformers", "KerasHub"),
    formats=("workdir", "huggingface", "sentence_transformers", "kerashub"),
    huggingface_types=("roberta",),
    kerashub_backbone="keras_hub>RobertaBackbone",
    model=_MODEL,
    data={
        **ONE_SEGMENT,
        "vocab": DOCUMENTS["vocab"],
        "vocab_size": DOCUMENTS["vocab_size"],
        "lowercase": Field(bool, "whether to lower-case text; must be unset or False"),
    },
    published={
        "model.initial_attention": "uniform",
        "model.initializer_range": 0.02,
        "model.dropout": 0.1,
        "model.initial_bias": "zeros",
        "model.initial_embeddings": "random",
        "train.batch_size": 8192,
        "train.learning_rate": 6e-4,
        "train.warmup_fraction": 0.048,
    },
)
