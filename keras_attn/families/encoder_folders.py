"""Folders of `transformers` with models that have the encoder of BERT."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as shorten
from typing import Any

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.checkpoints.encoder_config import FIELDS, read_architecture, write_architecture
from keras_attn.checkpoints.huggingface_config import (
    check_config,
    model_of_task,
    models_of,
    require_values,
)
from keras_attn.checkpoints.safetensors_files import read_tensors, write_tensors
from keras_attn.checkpoints.tensor_map import split
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.checkpoints.word_piece_files import read_tokenizer, write_tokenizer
from keras_attn.errors import UserError
from keras_attn.families.huggingface_tensors import (
    Entry,
    MaskedLMNames,
    layout,
    position_ids,
    stored_name,
)
from keras_attn.io.json_files import write_json
from keras_attn.registry import TASKS

# The defaults of `transformers` for fields that the config.json of BERT and RoBERTa lacks.
DEFAULTS = {
    "vocab_size": 30522,
    "num_hidden_layers": 12,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "tie_word_embeddings": True,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "classifier_dropout": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}
# Settings of BERT and RoBERTa of which only one value is supported.
NEEDED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_LENGTH = "max_position_embeddings"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderFolders:
    """Reads and writes the models of a family in folders of `transformers`.

    A subclass overrides the methods for what differs from the other families.

    Attributes:
        family: `keras_attn.families.contract.Family`.
        model_type: `model_type` in config.json.
        classes: Prefix of the names of the classes, such as "Bert".
        own: Classes of pretraining and without a head, and their tasks.
        tensors: Function of the architecture, the task and the arguments of the head that returns
            the entries of a model; see `keras_attn.families.huggingface_tensors`.
        prefix: Prefix of the names of the encoder, such as "bert.".
        masked_lm: Names of the head of the masked language model.
        defaults: Defaults for missing fields of config.json.
        needed: Fields of config.json of which only one value is supported.
        fields: Dict from arguments of the backbone to fields of config.json.
        activation_field: Field with the activation.
        fixed: Arguments of the backbone that config.json does not contain.
        dropout: Field with the dropout rate of the head, None in config.json if it is that of the
            encoder; None: there is no such field.
        dropouts: Dict from tasks to this field, if it is another one.
        mlm_activation: Activation of the masked language model; None: that of the backbone.
        skips_positions: Whether positions begin at `pad_token_id` + 1, as in RoBERTa.
    """

    family: Any
    model_type: str
    classes: str
    own: Mapping[str, str]
    tensors: Callable[[Mapping, str, Mapping], Iterable[Entry]]
    prefix: str
    masked_lm: MaskedLMNames
    defaults: Mapping[str, Any]
    needed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, str] = dataclasses.field(default_factory=lambda: FIELDS)
    activation_field: str = "hidden_act"
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dropout: str | None = None
    dropouts: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    mlm_activation: str | None = None
    skips_positions: bool = False

    def read(self, folder: str, config: Mapping | None = None) -> TrainedModel:
        """Reads a folder of `transformers`; the weights are read when they are used.

        Args:
            folder: The folder.
            config: Content of its config.json, if it has been read already.

        Returns:
            A `TrainedModel`.

        Raises:
            UserError: If the model or a setting is not supported, a file is damaged, the weights
                are a pickle, or a tensor is missing, unknown or misshapen.
        """
        models = self.models
        path, config, model = check_config(folder, config, self.defaults, models)
        config = self.complete(config, path)
        require_values(config, {"model_type": self.model_type, **self.needed}, path)
        task, tensors = models[model], read_tensors(folder)
        header, skipped = tensors.header, self._skipped_positions(config, path)
        if skipped and isinstance(config[_LENGTH], int):
            config[_LENGTH] -= skipped
        architecture = read_architecture(
            self.family,
            config,
            path,
            len(header),
            fields=self.fields,
            activation_field=self.activation_field,
        )
        architecture |= self.fixed
        dropout = self.dropouts.get(task, self.dropout)
        if dropout and config[dropout] is None:
            config[dropout] = architecture["dropout"]
        heads, files = TASKS[task].read_head(config, path, dropout)
        heads = self.head_arguments(task, heads, config, path)
        if task == "masked_lm":
            heads = self.masked_lm_heads(model, config, header, architecture)
        if self.family.has_pooler:
            architecture["use_pooler"] = self.has_pooler(task, heads, header)
        untied = not heads.get("tie_embeddings", True)
        tensors_of = layout(
            self.tensors(architecture, task, heads),
            functools.partial(self._name_in, header, untied),
        )
        self._skip_positions(tensors_of, skipped)
        copies = self._copies(header, tensors_of, untied)
        unused = {*position_ids(header), *copies, *self.unused(task, header)}
        weights = tensors.take(tensors_of, unused)
        for name, twin in copies.items():
            if twin and not tensors.equal(name, twin):
                raise UserError(
                    f"{name} must be equal to {twin}. Received: different values in "
                    f"{tensors.source}"
                )
        tokenizer, lowercase = self.read_tokenizer(folder, architecture["vocabulary_size"])
        return TrainedModel(
            folder, self.family, task, architecture, heads, weights, tokenizer, lowercase, files
        )

    def write(self, folder: str, trained: TrainedModel) -> None:
        """Writes a folder that `transformers` loads.

        Args:
            folder: An empty folder.
            trained: `TrainedModel`.

        Raises:
            UserError: If `transformers` does not support the model.
        """
        self.check_writable(trained)
        config = self._config(trained)
        tensors_of = self.layout_of(trained)
        skipped = self._skipped_positions(config, folder)
        config[_LENGTH] += skipped
        self._skip_positions(tensors_of, skipped)
        tensors = dict(split(tensors_of, trained.weights))
        if not trained.heads.get("tie_embeddings", True):
            tensors[f"{self.masked_lm.decoder}.bias"] = tensors[self.masked_lm.bias]
        if trained.task == "backbone":
            tensors = {name.removeprefix(self.prefix): array for name, array in tensors.items()}
        write_tensors(folder, tensors.items())
        self.write_tokenizer(folder, trained)
        # Written last, as it identifies a complete folder.
        write_json(os.path.join(folder, "config.json"), config)

    def layout_of(self, trained: TrainedModel) -> dict:
        """Returns the layout of a `TrainedModel`, `{our path: [ExternalTensor, …]}`."""
        return layout(self.tensors(trained.architecture, trained.task, trained.heads))

    @property
    def models(self) -> dict[str, str]:
        """The supported classes and the task of each."""
        return models_of(self.family, self.classes, self.own)

    def complete(self, config: dict, path: str) -> dict:
        """Checks the fields of config.json that are special to the family.

        Args:
            config: Content of config.json with defaults.
            path: Path of the file.

        Returns:
            The content, with all fields that `fields` names.
        """
        return config

    def head_arguments(self, task: str, heads: dict, config: Mapping, path: str) -> dict:
        """Returns the arguments of a head.

        Args:
            task: Name of the task.
            heads: Arguments that the task has read.
            config: Content of config.json.
            path: Path of the file.
        """
        return heads

    def masked_lm_heads(
        self, model: str, config: Mapping, header: Mapping, architecture: Mapping
    ) -> dict:
        """Returns the arguments of the head of a masked language model.

        Args:
            model: Name of the class.
            config: Content of config.json.
            header: Container of the names of the tensors.
            architecture: Arguments of the backbone.
        """
        heads: dict[str, Any] = {
            "next_sentence": False,
            "tie_embeddings": config["tie_word_embeddings"] is not False,
        }
        if self.mlm_activation not in (None, architecture["activation"]):
            heads["mlm_activation"] = self.mlm_activation
        return heads

    def has_pooler(self, task: str, heads: Mapping, header: Mapping) -> bool:
        """Returns whether the backbone of a folder has a pooler."""
        return False

    def unused(self, task: str, header: Mapping) -> set[str]:
        """Returns the names of tensors that a folder may contain in addition."""
        return set()

    def read_tokenizer(self, folder: str, rows: int) -> tuple[Any, bool | None]:
        """Returns the tokenizer, and whether text is lower-cased; None for what is missing.

        Args:
            folder: The folder.
            rows: Number of rows of the embedding matrix.
        """
        return read_tokenizer(folder, rows)

    def write_tokenizer(self, folder: str, trained: TrainedModel) -> None:
        """Writes the files of the tokenizer."""
        write_tokenizer(
            folder,
            trained.tokenizer.vocabulary,
            trained.lowercase,
            trained.architecture["max_length"],
        )

    def check_writable(self, trained: TrainedModel) -> None:
        """Raises a `UserError` for a model that `transformers` does not support."""
        title = self.family.title
        require_arguments(
            {"pooling": "cls", **trained.architecture, **trained.heads},
            {**self.fixed, "pooling": "cls"},
            f"transformers supports only {title} models trained with {{}}.",
        )

    def settings(self, trained: TrainedModel) -> dict:
        """Returns further fields of config.json, such as ids of special tokens."""
        return {"pad_token_id": trained.tokenizer.row_layout.pad_id}

    def model_of(self, trained: TrainedModel) -> str:
        """Returns the class name of a model.

        Raises:
            UserError: If `transformers` does not support the head.
        """
        found = model_of_task(self.models, trained.task)
        if trained.task != "masked_lm":
            return found
        heads, architecture = trained.heads, trained.architecture
        activation = self.mlm_activation or architecture["activation"]
        own = heads.get("mlm_activation") or architecture["activation"]
        for needed, advice in (
            (
                {"activation": activation},
                f"train with model.activation={activation}, or convert the encoder alone "
                "(--task=encoder).",
            ),
            (
                {"next_sentence": False, "use_pooler": False},
                "convert without next-sentence prediction (--task=masked_lm).",
            ),
        ):
            require_arguments(
                {"use_pooler": False, **architecture, **heads, "activation": own},
                needed,
                f"{found} of transformers has {{}}; {advice}",
            )
        return found

    def _config(self, trained):
        """Returns the content of config.json, with the number of our positions."""
        dropout = self.dropouts.get(trained.task, self.dropout)
        return {
            "model_type": self.model_type,
            "architectures": [self.model_of(trained)],
            **write_architecture(
                trained.architecture,
                "transformers",
                fields=self.fields,
                activation_field=self.activation_field,
            ),
            "tie_word_embeddings": trained.heads.get("tie_embeddings", True),
            "dtype": "float32",
            **self.settings(trained),
            **TASKS[trained.task].write_head(trained, dropout),
        }

    def _skipped_positions(self, config, path):
        """Returns the number of rows before the first position in the position embeddings."""
        if not self.skips_positions:
            return 0
        pad = config["pad_token_id"]
        if isinstance(pad, bool) or not isinstance(pad, int) or pad < 0:
            raise UserError(
                f"pad_token_id must be a non-negative integer. Received: {shorten(pad)} in {path}"
            )
        return pad + 1

    def _skip_positions(self, tensors_of, skipped):
        """Adds rows before the first position to the layout of the position embeddings."""
        if skipped:
            path = f"{self.family.backbone_name}/position_embedding/embeddings"
            (tensor,) = tensors_of[path]
            rows, size = tensor.shape
            tensors_of[path] = [
                dataclasses.replace(tensor, shape=(rows + skipped, size), skip=skipped)
            ]

    def _name_in(self, header, untied, name):
        """Returns the name of a tensor in the file."""
        added = f"{self.masked_lm.decoder}.bias"
        if name == self.masked_lm.bias and untied and added in header:
            return added  # the one that an untied model of version 5 adds
        return stored_name(header, self.prefix, name)

    def _copies(self, header, tensors_of, untied):
        """Returns the tensors that the file may have in addition, and the tensor that each equals.

        They are an unused bias of an untied model, which equals none, and the copies of the
        embedding matrix and the bias in the output layer of a tied model.
        """
        names = self.masked_lm
        used = {piece.name for pieces in tensors_of.values() for piece in pieces}
        if untied:
            return {names.bias: None} if names.bias not in used else {}
        (matrix,) = (
            piece.name for piece in tensors_of[f"{self.family.backbone_name}/token_embedding"]
        )
        twins = {f"{names.decoder}.bias": names.bias, f"{names.decoder}.weight": matrix}
        return {
            name: twin
            for name, twin in twins.items()
            if name != twin and name in header and twin in used
        }
