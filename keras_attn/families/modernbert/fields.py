"""ModernBERT: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS, INITIAL_WEIGHTS, LOCAL, SHAPE, TEXT

_MODEL = {
    "size": Field(
        str,
        "model size: tiny, mini, small, base or large; if unset, from `pretrained`, else tiny",
    ),
    **SHAPE,
    "max_length": Field(
        int,
        "sequence length for which the model is meant, recorded in checkpoints of transformers; "
        "if unset, from `pretrained`, else 8192",
        above=0,
    ),
    "activation": Field(
        str, "activation of the gated units: gelu_erf or gelu_tanh; if unset, gelu_erf"
    ),
    **LOCAL,
    **{name: field for name, field in INITIAL_WEIGHTS.items() if name != "initial_attention"},
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0, as ModernBERT", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="modernbert",
    libraries=("transformers", "sentence-transformers"),
    formats=("workdir", "huggingface", "sentence_transformers"),
    missing_formats={"kerashub": "KerasHub 0.32 has no ModernBERT"},
    huggingface_types=("modernbert",),
    model=_MODEL,
    data={
        "segments": Field(
            "documents",
            "segments of a sequence: documents (one document, or a part of one)",
            choices=("documents",),
        ),
        "pack": Field(16, TEXT["pack"].help, above=0),
        "masked_fraction": Field(
            0.3, "fraction of tokens that are masked and predicted", above=0, high=1
        ),
        "vocab": Field(
            str,
            "tokenizer.json, or a folder that contains it; if unset, from `pretrained` or from the "
            "prepared folder data.train, else trained on data.train",
        ),
        "vocab_size": DOCUMENTS["vocab_size"],
        "lowercase": Field(
            bool, "whether to lower-case text; must be unset or False", choices=(False,)
        ),
    },
    published={
        "model.initializer_range": 0.02,
        "model.initial_bias": "zeros",
        "model.initial_embeddings": "random",
        "train.batch_size": 4608,
        "train.learning_rate": 8e-4,
        "train.schedule": "wsd",
        "train.weight_decay": 1e-5,
    },
)
