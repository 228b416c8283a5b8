"""Workdirs of GPT-2 and XLNet; those of BERT: `keras_attn.convert.bert_workdirs`."""

import collections.abc
import functools

from keras_attn.checkpoints.architectures import MOST_LAYERS, check_architecture
from keras_attn.checkpoints.saved_run import SavedRun
from keras_attn.checkpoints.stored_model import StoredModel
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.families import family_of_kind
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.workdir import Workdir, began_as_released

UNBOUNDED_LENGTH = 512  # tokens of a text where an XLNet does not say: as of its authors


def read(folder):
    """Reads a workdir; its best or newest whole checkpoint when its weights are used.

    Returns:
        A `StoredModel`.

    Raises:
        UserError: If its config.json is that of no run.
    """
    workdir = Workdir(folder)
    saved = workdir.read_config()
    path, kind = workdir / "config.json", saved["kind"]
    family = family_of_kind(kind)
    labels = {"names": None, "pairs": None}
    heads = saved.get("heads") or {}
    try:
        architecture = check_architecture(
            family.backbone, saved["architecture"], path, MOST_LAYERS)
        data = saved["config"]["data"]
        lowercase = bool(data.get("lowercase"))
        if kind == family.kind:
            # It checks its arguments; there is no dtype among them.
            made = family.classifier(
                family.backbone(**architecture), dtype="float32", **heads)
            labels = workdir.read_labels(made.num_classes)
        run = SavedRun(folder, (kind,), family.backbone.__name__)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} must be that of a run. Received: something else") from error
    workdir.check_tokenizer(saved, family.tokenizers.files)
    tokenizer = family.read_tokenizer(folder, data)
    return StoredModel(family, kind, architecture, heads, tokenizer, _Weights(run), lowercase,
                       labels["names"], labels["pairs"], saved["config"],
                       began_as_released(saved))


def write(folder, stored):
    """Writes a workdir that no run goes on with, but that runs start from and that is used.

    Args:
        folder: An empty or new one.
        stored: A `StoredModel`.
    """
    workdir, family = Workdir(folder), stored.family
    workdir.create()
    stored.tokenizer.write(workdir.path)
    if stored.labels is not None:
        workdir.write_json("labels.json", {"names": stored.labels, "pairs": stored.pairs})
    prefix = family.prefix(stored.kind)
    Checkpoints(workdir / "checkpoints").save(
        0, {prefix + path: weight for path, weight in stored.weights.items()}, {"seconds": 0.0})
    hashes = {name: file_sha256(workdir / name) for name in family.tokenizers.files}
    workdir.start(stored.kind, config_of(stored), stored.architecture, hashes, stored.heads,
                  converted=True)


def config_of(stored):
    """Config of a model that no run of ours made: the defaults, and what the model says."""
    if stored.config is not None:
        return stored.config
    config = (finetuning_defaults() if stored.is_classifier else stored.family.defaults()).to_dict()
    config.pop("workdir")
    config["data"].update(length=stored.architecture.get("max_length", UNBOUNDED_LENGTH))
    if "lowercase" in config["data"]:
        config["data"].update(lowercase=stored.lowercase)
    if stored.is_classifier:
        config["data"]["text"] = "text"
        if not getattr(stored.tokenizer, "end_mark", True):
            config["data"]["end_mark"] = False
    return config


class _Weights(collections.abc.Mapping):
    """Arrays of a run by path below the task model, read when they are used."""

    def __init__(self, run):
        self._run = run

    @functools.cached_property
    def _arrays(self):
        return {path.split("/", 2)[2]: array for path, array in self._run.weights.items()}

    def __getitem__(self, path):
        return self._arrays[path]

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self):
        return len(self._arrays)
