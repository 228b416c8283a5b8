"""Embedding models in folders of sentence-transformers, for families that read `transformers`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from keras_attn.checkpoints import sentence_transformers_files as files
from keras_attn.checkpoints.sentence_transformers_modules import read_modules
from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.checkpoints.trained_model import TrainedModel

# The value of `task` of `keras_attn.convert` for the models of this format.
HEADS = "embedding"
_HEAD = "embedding_head/"


def folder_format(huggingface: Any) -> tuple[Callable, Callable]:
    """Returns the functions `read` and `write` of the format.

    Args:
        huggingface: Module with the format `huggingface` of the family.
    """

    def read(folder: str, config: Mapping | None = None) -> TrainedModel:
        """Reads a folder of sentence-transformers; the weights are read when they are used.

        Args:
            folder: The folder.
            config: Content of config.json of its Transformer, if it has been read already.

        Returns:
            A `TrainedModel`.

        Raises:
            UserError: If the Transformer, a module or a setting is not supported, or a file is
                damaged.
        """
        modules = read_modules(folder)
        encoder = huggingface.read(modules[0].folder, config)
        architecture = encoder.architecture
        heads, head, include_prompt = files.read_head(modules, architecture["hidden_dim"])
        settings = files.read_settings(
            folder, modules[0].folder, architecture.get("max_length"), include_prompt
        )
        weights = {_HEAD + path: weight for path, weight in head.items()}
        return dataclasses.replace(
            encoder,
            path=folder,
            task="embedding",
            heads=heads,
            weights={**encoder.backbone_weights, **weights},
            files={"text": settings},
        )

    def write(folder: str, trained: TrainedModel) -> None:
        """Writes a folder that `SentenceTransformer` loads.

        Args:
            folder: An empty folder.
            trained: `TrainedModel` for embedding.

        Raises:
            UserError: If `transformers` or sentence-transformers does not support the model.
        """
        architecture, weights = trained.architecture, trained.weights
        files.write_modules(
            folder,
            trained.heads,
            {path.removeprefix(_HEAD): weights[path] for path in weights if path.startswith(_HEAD)},
            trained.files.get("text", TextSettings()),
            architecture["hidden_dim"],
            architecture.get("max_length"),
        )
        encoder = dataclasses.replace(
            trained, task="backbone", heads={}, weights=trained.backbone_weights, files={}
        )
        # Last, as its config.json identifies a complete folder.
        huggingface.write(folder, encoder)

    return read, write
