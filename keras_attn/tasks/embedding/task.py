"""Embeddings of texts with a head: pooling, dense layers and normalization."""

import dataclasses

from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.errors import UserError, warn
from keras_attn.tasks.contract import Task
from keras_attn.tasks.embedder import Embedder
from keras_attn.tasks.model_arguments import require_float32, with_defaults

_FILE = "embedding.json"


class Embedding(Task):
    """Embeddings of texts, as of sentence-transformers."""

    name = "embedding"
    command = "python -m finetune.embed"

    def complete_heads(self, heads, config, files):
        return with_defaults(heads, {"pooling": ["mean"], "steps": []})

    def read_files(self, workdir, heads):
        found = workdir.read_json(_FILE)
        if found is None:
            raise UserError(f"{workdir.path} lacks {_FILE}. Restore the file")
        return {"text": TextSettings.from_json(found, workdir / _FILE)}

    def write_files(self, workdir, trained):
        workdir.write_json(_FILE, _settings(trained).to_json())

    def complete_config(self, config, trained):
        config["data"]["length"] = _settings(trained).max_length or config["data"]["length"]

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Embedder(trained)

    def head_layers(self, heads):
        # Dense layers follow the pooling, so they are not on the hidden states.
        return None if any("units" in step for step in heads.get("steps", ())) else {}

    def describe_head(self, trained):
        heads, settings = trained.heads, _settings(trained)
        length = []
        if settings.max_length not in (None, trained.architecture.get("max_length")):
            length = [f"max_length={settings.max_length}"]
        steps = [
            f"dense {step['units']} ({step['activation']})" if "units" in step else step["type"]
            for step in heads["steps"]
        ]
        names = [name for name, text in settings.prompts.items() if text]
        prompts = [f"prompts {', '.join(names)}"] if names else []
        return ", ".join([f"pooling={'+'.join(heads['pooling'])}", *steps, *length, *prompts])

    def for_other_libraries(self, trained):
        warn(
            f"warning: only the encoder is written, without {self.describe_head(trained)}; "
            "--format=sentence_transformers writes all of it"
        )
        return dataclasses.replace(
            trained, task="backbone", heads={}, weights=trained.backbone_weights, files={}
        )


def _settings(trained):
    return trained.files.get("text", TextSettings())


TASK = Embedding()
