"""Presets of KerasHub: a `BertBackbone` and its tokenizer."""

import os

from keras_attn.checkpoints.architectures import check_architecture, need_fields
from keras_attn.checkpoints.kerashub_files import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    class_of,
    object_of,
    read_tensors,
    write_config,
    write_tensors,
)
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.checkpoints.word_piece_files import padded_tokenizer
from keras_attn.errors import UserError
from keras_attn.families.bert.family import FAMILY
from keras_attn.families.bert.tensors import check_writable, model_tensors
from keras_attn.io.json_files import read_object, write_json
from keras_attn.text.vocabulary import read_vocabulary, write_vocabulary

VOCABULARY = "assets/tokenizer/vocabulary.txt"
_FIELDS = {
    "vocabulary_size": "vocabulary_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_dim",
    "intermediate_dim": "intermediate_dim",
    "dropout": "dropout",
    "max_length": "max_sequence_length",
    "num_segments": "num_segments",
}
# Fixed arguments of BertBackbone, which its config does not contain.
_FIXED = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12, "use_pooler": True}
_LAYER = {
    "attention.self.query": "_self_attention_layer/query_dense",
    "attention.self.key": "_self_attention_layer/key_dense",
    "attention.self.value": "_self_attention_layer/value_dense",
    "attention.output.dense": "_self_attention_layer/output_dense",
    "attention.output.LayerNorm": "_self_attention_layer_norm",
    "intermediate.dense": "_feedforward_intermediate_dense",
    "output.dense": "_feedforward_output_dense",
    "output.LayerNorm": "_feedforward_layer_norm",
}
_REST = {
    "bert.embeddings.word_embeddings": "reversible_embedding",
    "bert.embeddings.position_embeddings": "position_embedding",
    "bert.embeddings.token_type_embeddings": "embedding",
    "bert.embeddings.LayerNorm": "layer_normalization",
    "bert.pooler.dense": "dense",
}


def read(folder, config=None):
    """Reads a preset.

    Args:
        folder: The folder.
        config: Content of its config.json, if it has been read already.

    Returns:
        A `TrainedModel` without a head; `lowercase` and `tokenizer` are None if the preset has no
        tokenizer. With `lowercase`, accents are stripped as in BERT's training, even if the preset
        has `strip_accents=False`, its default.

    Raises:
        UserError: If the model is no `BertBackbone`, or a file is damaged.
    """
    path = os.path.join(folder, CONFIG)
    found = config or read_object(path)
    if class_of(found) != "keras_hub>BertBackbone":
        raise UserError(f"{path} must describe a BertBackbone. Received: {class_of(found)}")
    config = found.get("config")
    need_fields(config, _FIELDS.values(), path)
    tensors = read_tensors(os.path.join(folder, WEIGHTS))
    architecture = {ours: config[theirs] for ours, theirs in _FIELDS.items()}
    architecture = check_architecture(
        FAMILY,
        {
            **architecture,
            "attention_dropout": architecture["dropout"],
            "initializer_range": 0.02,
            "layer_norm_epsilon": _FIXED["layer_norm_epsilon"],
            "activation": _FIXED["activation"],
        },
        path,
        len(tensors.header),
    )
    architecture["use_pooler"] = True
    weights = tensors.take(_layout(architecture))
    tokenizer, lowercase = _tokenizer(folder, architecture["vocabulary_size"])
    return TrainedModel(folder, FAMILY, "backbone", architecture, {}, weights, tokenizer, lowercase)


def write(folder, trained):
    """Writes a preset that `keras_hub.models.BertBackbone.from_preset` loads.

    Args:
        folder: An empty folder.
        trained: `TrainedModel` without a head.

    Raises:
        UserError: If KerasHub does not support the model.
    """
    dropout = trained.architecture["dropout"]  # BertBackbone has one dropout rate
    check_writable(trained, "KerasHub", **_FIXED, attention_dropout=dropout)
    if trained.task != "backbone":
        raise UserError(
            "KerasHub's BertBackbone has no head. Set task=encoder to convert the backbone alone. "
            f"Received: a model for {trained.task}"
        )
    os.makedirs(os.path.join(folder, os.path.dirname(VOCABULARY)), exist_ok=True)
    write_tensors(
        os.path.join(folder, WEIGHTS), split(_layout(trained.architecture), trained.weights)
    )
    write_vocabulary(os.path.join(folder, VOCABULARY), trained.tokenizer.vocabulary)
    write_json(
        os.path.join(folder, TOKENIZER),
        object_of(
            "models.bert.bert_tokenizer",
            "BertTokenizer",
            {
                "name": "bert_tokenizer",
                "trainable": True,
                "dtype": "int32",
                "config_file": TOKENIZER,
                "vocabulary": None,
                "sequence_length": None,
                "lowercase": trained.lowercase,
                "strip_accents": trained.lowercase,
                "split": True,
                "suffix_indicator": "##",
                "oov_token": "[UNK]",
            },
        ),
    )
    write_config(
        folder,
        "bert",
        "BertBackbone",
        {theirs: trained.architecture[ours] for ours, theirs in _FIELDS.items()},
    )


def _layout(architecture):
    return {
        path: [_piece(name, own, architecture) for name in names]
        for path, names, own in model_tensors(architecture, "backbone", {})
    }


def _piece(name, own, architecture):
    stem, _, last = name.rpartition(".")
    heads = architecture["num_heads"]
    size = architecture["hidden_dim"] // heads
    shape = own
    if "attention.self." in name:  # (D, H, S) and (H, S)
        shape = (*own[:-1], heads, size)
    elif stem.endswith("attention.output.dense") and last == "weight":
        shape = (heads, size, own[-1])
    if stem in _REST:
        place = _REST[stem]
    else:
        _, _, _, number, rest = stem.split(".", 4)
        place = f"transformer_encoder{f'_{number}' if number != '0' else ''}/{_LAYER[rest]}"
    variable = {"weight": 0, "bias": 1}[last]
    return ExternalTensor(f"layers/{place}/vars/{variable}", shape, own_shape=own)


def _tokenizer(folder, rows):
    path = os.path.join(folder, TOKENIZER)
    if not os.path.isfile(path):
        return None, None
    found = read_object(path)
    config = found.get("config")
    if (
        class_of(found) != "keras_hub>BertTokenizer"
        or not isinstance(config, dict)
        or not isinstance(config.get("lowercase"), bool)
        or config.get("suffix_indicator", "##") != "##"
        or config.get("oov_token", "[UNK]") != "[UNK]"
    ):
        raise UserError(
            f"{path} must describe a BertTokenizer with lowercase, suffix_indicator='##' and "
            "oov_token='[UNK]'"
        )
    vocabulary, lowercase = read_vocabulary(os.path.join(folder, VOCABULARY)), config["lowercase"]
    return padded_tokenizer(vocabulary, lowercase, rows, folder), lowercase
