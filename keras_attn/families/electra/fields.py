"""ELECTRA: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import INITIAL_WEIGHTS, SHAPE

_MODEL = {
    "size": Field(
        str, "model size: tiny, mini, small, base or large; if unset, from `pretrained`, else tiny"
    ),
    **SHAPE,
    "embedding_dim": Field(
        int,
        "embedding size; if unset, 128 for the sizes mini and small, else the hidden size",
        above=0,
    ),
    "max_length": Field(
        int, "maximum sequence length (position embeddings); if unset, 512", above=0
    ),
    "activation": Field(
        str, "activation of the feed-forward layers: gelu_erf or gelu_tanh; if unset, gelu_erf"
    ),
    **INITIAL_WEIGHTS,
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0 (ELECTRA: 0.1)", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="electra",
    pretrains="replaced_tokens",
    libraries=("transformers", "sentence-transformers", "KerasHub"),
    formats=("workdir", "huggingface", "sentence_transformers", "kerashub"),
    huggingface_types=("electra",),
    kerashub_backbone="keras_hub>ElectraBackbone",
    model=_MODEL,
    data={
        "segments": Field(
            "full_sentences",
            "segments of a sequence: full_sentences (one) or next_sentence (two, the second one "
            "random in half of the sequences)",
            choices=("full_sentences", "next_sentence"),
        )
    },
    published={  # of the size small
        "model.initial_attention": "uniform",
        "model.initializer_range": 0.02,
        "model.dropout": 0.1,
        "model.initial_bias": "zeros",
        "model.initial_embeddings": "random",
        "train.batch_size": 128,
        "train.learning_rate": 5e-4,
        "train.warmup_fraction": 0.01,
    },
)
