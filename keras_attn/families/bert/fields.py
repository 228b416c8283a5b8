"""BERT: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import INGREDIENTS, INITIAL_WEIGHTS, SHAPE

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
        str,
        "activation of the feed-forward layers: gelu_tanh, gelu_erf or relu2 (squared ReLU); if "
        "unset, gelu_tanh",
    ),
    **INGREDIENTS,
    "norm_first": Field(bool, "pre-norm (True) or post-norm (False, as in BERT); if unset, True"),
    **INITIAL_WEIGHTS,
    "next_sentence": Field(
        bool,
        "whether to train next-sentence (or sentence-order) prediction; if unset, as in "
        "`pretrained`, else True where sequences have two segments",
    ),
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0 (BERT: 0.1)", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="bert",
    libraries=("transformers", "sentence-transformers", "google-research/bert", "KerasHub"),
    formats=("workdir", "huggingface", "sentence_transformers", "kerashub", "google"),
    config_files={"bert_config.json": "google"},
    huggingface_types=("bert", "roberta-prelayernorm"),
    kerashub_backbone="keras_hub>BertBackbone",
    model=_MODEL,
    published={
        "model.norm_first": False,
        "model.initial_attention": "uniform",
        "model.initializer_range": 0.02,
        "model.dropout": 0.1,
        "model.initial_bias": "zeros",
        "model.initial_embeddings": "random",
        "train.batch_size": 256,
        "train.learning_rate": 1e-4,
        "train.warmup_fraction": 0.01,
    },
)
