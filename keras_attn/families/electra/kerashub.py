"""Presets of KerasHub: an `ElectraBackbone` and its tokenizer."""

import numpy as np

from keras_attn.families.electra.family import FAMILY
from keras_attn.families.electra.tensors import backbone_tensors
from keras_attn.families.encoder_presets import FIELDS, EncoderPresets
from keras_attn.families.layer_memory import embedding_dim


class _Electra(EncoderPresets):
    def tensors(self, architecture):
        return backbone_tensors(architecture, self.family.backbone_name, "")

    # ElectraBackbone has a pooler, which no pretraining of ELECTRA trains: its outputs are not
    # those of a pretrained model.
    def unused(self, architecture):
        return set(_pooler_names(architecture))

    def further_tensors(self, architecture):
        size, draw = architecture["hidden_dim"], np.random.default_rng(0)
        kernel = draw.normal(0, architecture["initializer_range"], (size, size))
        arrays = kernel.astype("float32"), np.zeros(size, "float32")
        return zip(_pooler_names(architecture), arrays, strict=True)


def _pooler_names(architecture):
    projected = embedding_dim(architecture) != architecture["hidden_dim"]
    layer = f"layers/dense{'_1' if projected else ''}/vars"
    return f"{layer}/0", f"{layer}/1"


_PRESETS = _Electra(
    family=FAMILY,
    package="electra",
    model="Electra",
    fixed={"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12},
    fields={
        **FIELDS,
        "vocabulary_size": "vocab_size",
        "embedding_dim": "embedding_dim",
        "num_segments": "num_segments",
    },
    embeddings={
        "embeddings.word_embeddings": "reversible_embedding",
        "embeddings.position_embeddings": "position_embedding",
        "embeddings.token_type_embeddings": "embedding",
        "embeddings.LayerNorm": "layer_normalization",
        "embeddings_project": "dense",
    },
)
read, write = _PRESETS.read, _PRESETS.write
