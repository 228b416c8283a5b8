"""Presets of KerasHub: a `RobertaBackbone` and its tokenizer."""

import dataclasses

import numpy as np

from keras_attn.checkpoints.byte_pair_files import padded
from keras_attn.families.encoder_presets import EncoderPresets
from keras_attn.families.roberta.family import FAMILY
from keras_attn.text.byte_pairs import read_files
from keras_attn.text.roberta_byte_pairs import RobertaTokenizer

_FILES = "assets/tokenizer/vocabulary.json", "assets/tokenizer/merges.txt"
_SEGMENTS, _POSITIONS = (
    f"{FAMILY.backbone_name}/{name}"
    for name in ("segment_embedding", "position_embedding/embeddings")
)


class _Roberta(EncoderPresets):
    TOKENIZER_SETTINGS = "add_prefix_space=False"

    def read_tokenizer(self, folder, config, rows):
        if config.get("add_prefix_space"):
            return None
        tokens, merges = read_files(folder, [_FILES])
        return RobertaTokenizer(padded(tokens, rows, folder), merges, folder), False

    def write_tokenizer(self, folder, trained):
        tokenizer = trained.tokenizer
        tokenizer.without_padding_rows().write(folder, _FILES, title="")
        return {
            "add_prefix_space": False,
            "unsplittable_tokens": ["</s>", "<s>", "<pad>", "<mask>"],
        }

    def write(self, folder, trained):
        architecture, weights = dict(trained.architecture), dict(trained.weights)
        if architecture["num_segments"] == 1 and _SEGMENTS in weights:
            # RobertaBackbone has no segment embedding, which all tokens have in common.
            positions = np.asarray(weights[_POSITIONS]) + np.asarray(weights.pop(_SEGMENTS))
            weights[_POSITIONS], architecture["num_segments"] = positions, 0
        super().write(
            folder, dataclasses.replace(trained, architecture=architecture, weights=weights)
        )


_PRESETS = _Roberta(
    family=FAMILY,
    package="roberta",
    model="Roberta",
    fixed={
        "norm_first": False,
        "num_segments": 0,
        "activation": "gelu_erf",
        "layer_norm_epsilon": 1e-5,
        "use_pooler": False,
    },
)
read, write = _PRESETS.read, _PRESETS.write
