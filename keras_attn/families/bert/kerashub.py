"""Presets of KerasHub: a `BertBackbone` and its tokenizer."""

from keras_attn.families.bert.family import FAMILY
from keras_attn.families.bert.tensors import PLAIN
from keras_attn.families.encoder_presets import FIELDS, EncoderPresets

_PRESETS = EncoderPresets(
    family=FAMILY,
    package="bert",
    model="Bert",
    fixed={
        "norm_first": False,
        "activation": "gelu_tanh",
        "layer_norm_epsilon": 1e-12,
        "use_pooler": True,
        **PLAIN,
    },
    fields={**FIELDS, "num_segments": "num_segments"},
    embeddings={
        "embeddings.word_embeddings": "reversible_embedding",
        "embeddings.position_embeddings": "position_embedding",
        "embeddings.token_type_embeddings": "embedding",
        "embeddings.LayerNorm": "layer_normalization",
        "pooler.dense": "dense",
    },
)
read, write = _PRESETS.read, _PRESETS.write
