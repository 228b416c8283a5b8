"""BERT: config fields, and the formats of its checkpoints."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import SHAPE

_MODEL = {
    "size": Field(
        str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or tiny"),
    **SHAPE,
    "max_length": Field(int, "positions; without: 512"),
    "activation": Field(str, "gelu_tanh or gelu_erf; without: gelu_tanh"),
    "norm_first": Field(bool, "norm before each part, not after; without: True (BERT: False)"),
    "initial_attention": Field(str, "neighbours or uniform; without: neighbours (BERT: uniform)"),
    "initializer_range": Field(
        float, "spread of first weights; without: 0.8 / sqrt(hidden_dim), at most 0.05", above=0),
    "next_sentence": Field(
        bool, "learn next sentences, or their order; without: as `pretrained`, else where rows "
        "have two segments"),
    "new_heads": Field(False, "start heads that `pretrained` lacks at random"),
    "initial_embeddings": Field(
        "cooccurrences", "of tokens without `pretrained`: from what occurs near each in "
        "data.train, or random as BERT", choices=("cooccurrences", "random"), resume="first",
        before="random"),
    "initial_bias": Field(
        "frequencies", "of the masked-LM output: log frequencies, or zeros as BERT",
        choices=("frequencies", "zeros")),
    "dropout": Field(
        float, "share of values set to 0 in training; without: that of `pretrained`, or 0 (BERT: "
        "0.1)", low=0, below=1),
}

FIELDS = FamilyFields(
    name="bert",
    libraries=("transformers", "google-research/bert", "KerasHub"),
    formats=("workdir", "huggingface", "kerashub", "google"),
    config_files={"bert_config.json": "google"},
    huggingface_type="bert",
    kerashub_backbone="keras_hub>BertBackbone",
    model=_MODEL,
)
