"""Presets of KerasHub with backbones that have the encoder of BERT."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

from keras_attn.checkpoints.architectures import (
    check_architecture,
    need_fields,
    require_arguments,
)
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
from keras_attn.families.huggingface_tensors import Entry, encoder_tensors
from keras_attn.io.json_files import read_object, write_json
from keras_attn.text.vocabulary import read_vocabulary, write_vocabulary

VOCABULARY = "assets/tokenizer/vocabulary.txt"
FIELDS = {
    "vocabulary_size": "vocabulary_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_dim",
    "intermediate_dim": "intermediate_dim",
    "dropout": "dropout",
    "max_length": "max_sequence_length",
}
# The layers of the embeddings of backbones without segments.
EMBEDDINGS = {
    "embeddings.word_embeddings": "token_and_position_embedding/token_embedding",
    "embeddings.position_embeddings": "token_and_position_embedding/position_embedding",
    "embeddings.LayerNorm": "layer_normalization",
}
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderPresets:
    """Reads and writes the presets of a backbone of KerasHub and its tokenizer.

    A subclass overrides the methods for what differs: the tokenizer if it is not WordPiece, and
    layers that BERT lacks.

    Attributes:
        family: `keras_attn.families.contract.Family`.
        package: Name of the package in KerasHub, such as "bert".
        model: Prefix of the names of the classes, such as "Bert".
        fixed: Arguments of our backbone that their config does not contain.
        fields: Dict from arguments of our backbone to theirs.
        embeddings: Dict from the names of BERT's layers other than encoder layers to theirs.
    """

    family: Any
    package: str
    model: str
    fixed: Mapping[str, Any]
    fields: Mapping[str, str] = dataclasses.field(default_factory=lambda: FIELDS)
    embeddings: Mapping[str, str] = dataclasses.field(default_factory=lambda: EMBEDDINGS)

    def read(self, folder: str, config: Mapping | None = None) -> TrainedModel:
        """Reads a preset.

        Args:
            folder: The folder.
            config: Content of its config.json, if it has been read already.

        Returns:
            A `TrainedModel` without a head; `lowercase` and `tokenizer` are None if the preset has
            no tokenizer. With `lowercase`, accents are stripped as in BERT's training, even if the
            preset has `strip_accents=False`, its default.

        Raises:
            UserError: If the preset contains another model, or a file is damaged.
        """
        path = os.path.join(folder, CONFIG)
        found = config or read_object(path)
        if class_of(found) != f"keras_hub>{self._backbone}":
            raise UserError(f"{path} must describe a {self._backbone}. Received: {class_of(found)}")
        config = found.get("config")
        need_fields(config, self.fields.values(), path)
        assert config is not None
        tensors = read_tensors(os.path.join(folder, WEIGHTS))
        architecture = {ours: config[theirs] for ours, theirs in self.fields.items()}
        architecture |= {
            "attention_dropout": architecture["dropout"],
            "initializer_range": 0.02,
            "layer_norm_epsilon": self.fixed["layer_norm_epsilon"],
            "activation": self.fixed["activation"],
        }
        architecture = check_architecture(self.family, architecture, path, len(tensors.header))
        architecture |= self.fixed
        weights = tensors.take(self._layout(architecture), self.unused(architecture))
        tokenizer, lowercase = self._tokenizer(folder, architecture["vocabulary_size"])
        return TrainedModel(
            folder, self.family, "backbone", architecture, {}, weights, tokenizer, lowercase
        )

    def write(self, folder: str, trained: TrainedModel) -> None:
        """Writes a preset that `from_preset` of the backbone loads.

        Args:
            folder: An empty folder.
            trained: `TrainedModel` without a head.

        Raises:
            UserError: If KerasHub does not support the model.
        """
        architecture = trained.architecture
        # Their backbones have one dropout rate.
        needed = {"pooling": "cls", **self.fixed, "attention_dropout": architecture["dropout"]}
        require_arguments(
            {"pooling": "cls", **architecture, **trained.heads},
            needed,
            f"KerasHub supports only {self.family.title} models trained with {{}}.",
        )
        if trained.task != "backbone":
            raise UserError(
                f"KerasHub's {self._backbone} has no head. Set task=encoder to convert the "
                f"backbone alone. Received: a model for {trained.task}"
            )
        os.makedirs(os.path.join(folder, os.path.dirname(VOCABULARY)), exist_ok=True)
        write_tensors(
            os.path.join(folder, WEIGHTS),
            itertools.chain(
                split(self._layout(architecture), trained.weights),
                self.further_tensors(architecture),
            ),
        )
        settings = self.write_tokenizer(folder, trained)
        name = f"{self.package}_tokenizer"
        write_json(
            os.path.join(folder, TOKENIZER),
            object_of(
                f"models.{self.package}.{name}",
                f"{self.model}Tokenizer",
                {
                    "name": name,
                    "trainable": True,
                    "dtype": "int32",
                    "config_file": TOKENIZER,
                    "sequence_length": None,
                    **settings,
                },
            ),
        )
        write_config(
            folder,
            self.package,
            self._backbone,
            {theirs: architecture[ours] for ours, theirs in self.fields.items()},
        )

    @property
    def _backbone(self):
        return f"{self.model}Backbone"

    def tensors(self, architecture: Mapping) -> Iterable[Entry]:
        """Returns the entries of the backbone, named as in `transformers`."""
        return encoder_tensors(architecture, self.family.backbone_name, "")

    def unused(self, architecture: Mapping) -> set[str]:
        """Returns the names of tensors that our backbone lacks."""
        return set()

    def further_tensors(self, architecture: Mapping) -> Iterable[tuple[str, Any]]:
        """Yields names and values of these tensors."""
        return ()

    def read_tokenizer(
        self, folder: str, config: Mapping, rows: int
    ) -> tuple[Any, bool | None] | None:
        """Returns the tokenizer, and whether text is lower-cased; None if it is not supported.

        Args:
            folder: The folder.
            config: Arguments of their tokenizer.
            rows: Number of rows of the embedding matrix.
        """
        if (
            not isinstance(config.get("lowercase"), bool)
            or config.get("suffix_indicator", "##") != "##"
            or config.get("oov_token", "[UNK]") != "[UNK]"
        ):
            return None
        lowercase = config["lowercase"]
        vocabulary = read_vocabulary(os.path.join(folder, VOCABULARY))
        return padded_tokenizer(vocabulary, lowercase, rows, folder), lowercase

    # What `read_tokenizer` supports, in messages.
    TOKENIZER_SETTINGS = "lowercase, suffix_indicator='##' and oov_token='[UNK]'"

    def write_tokenizer(self, folder: str, trained: TrainedModel) -> dict:
        """Writes the files of the tokenizer, and returns the arguments of their tokenizer."""
        write_vocabulary(os.path.join(folder, VOCABULARY), trained.tokenizer.vocabulary)
        return {
            "vocabulary": None,
            "lowercase": trained.lowercase,
            "strip_accents": trained.lowercase,
            "split": True,
            "suffix_indicator": "##",
            "oov_token": "[UNK]",
        }

    def _tokenizer(self, folder, rows):
        path = os.path.join(folder, TOKENIZER)
        if not os.path.isfile(path):
            return None, None
        found, name = read_object(path), f"{self.model}Tokenizer"
        config, tokenizer = found.get("config"), None
        if class_of(found) == f"keras_hub>{name}" and isinstance(config, dict):
            tokenizer = self.read_tokenizer(folder, config, rows)
        if tokenizer is None:
            raise UserError(f"{path} must describe a {name} with {self.TOKENIZER_SETTINGS}")
        return tokenizer

    def _layout(self, architecture):
        return {
            path: [self._piece(name, own, architecture) for name in names]
            for path, names, own in self.tensors(architecture)
        }

    def _piece(self, name, own, architecture):
        stem, _, last = name.rpartition(".")
        heads = architecture["num_heads"]
        size = architecture["hidden_dim"] // heads
        shape = own
        if "attention.self." in name:  # (D, H, S) and (H, S)
            shape = (*own[:-1], heads, size)
        elif stem.endswith("attention.output.dense") and last == "weight":
            shape = (heads, size, own[-1])
        if stem in self.embeddings:
            place = self.embeddings[stem]
        else:
            _, _, number, rest = stem.split(".", 3)
            place = f"transformer_encoder{f'_{number}' if number != '0' else ''}/{_LAYER[rest]}"
        variable = {"weight": 0, "bias": 1}[last]
        return ExternalTensor(f"layers/{place}/vars/{variable}", shape, own_shape=own)
