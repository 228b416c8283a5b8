"""ModernBERT: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import DOCUMENTS, INITIAL_WEIGHTS, SHAPE, TEXT

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
    "local_every": Field(
        int,
        "number of layers of which the first one attends to the whole sequence, and the others to "
        "a window; if unset, 3",
        above=0,
    ),
    "window": Field(
        int, "window of local layers: window // 2 tokens on either side; if unset, 128", above=0
    ),
    "rotary_base": Field(
        float, "base of the rotary positions of global layers; if unset, 160,000", above=0
    ),
    "local_rotary_base": Field(
        float, "base of the rotary positions of local layers; if unset, 10,000", above=0
    ),
    "first_norm": Field(
        bool, "whether the first layer normalizes the input of its attention; if unset, False"
    ),
    "use_bias": Field(
        bool, "whether attention and feed-forward layers have biases; if unset, False"
    ),
    "norm_bias": Field(bool, "whether layer norms have biases; if unset, False"),
    **{name: field for name, field in INITIAL_WEIGHTS.items() if name != "initial_attention"},
    "dropout": Field(
        float, "dropout rate; if unset, from `pretrained`, else 0, as ModernBERT", low=0, below=1
    ),
}

FIELDS = FamilyFields(
    name="modernbert",
    libraries=("transformers", "sentence-transformers"),
    formats=("workdir", "huggingface", "sentence_transformers"),
    huggingface_types=("modernbert",),
    model=_MODEL,
    data={
        "segments": Field(
            "documents",
            "segments of a sequence: documents (one document, or a part of one)",
            choices=("documents",),
        ),
        "pack": Field(32, TEXT["pack"].help, above=0),
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
