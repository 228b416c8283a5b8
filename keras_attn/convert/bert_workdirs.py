"""Workdirs: the folders that runs leave behind."""

import collections.abc
import posixpath

from keras_attn.checkpoints.architectures import MOST_LAYERS, check_architecture
from keras_attn.counts import counted
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError, warn_once
from keras_attn.families.bert.tensors import StoredBert, shapes
from keras_attn.models import (
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
)
from keras_attn.tasks.span_qa.examples import TASK as READING
from keras_attn.text.vocabulary import read_vocabulary, write_vocabulary
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.workdir import Workdir, began_as_released

# Names of the task models, with which the paths in a checkpoint begin.
MODELS = {"pretraining": "bert_pretrainer", "finetuning": "bert_classifier",
          "reading": "bert_question_answerer"}
TASKS = {"pretraining": BertPretrainer, "finetuning": BertClassifier,
         "reading": BertQuestionAnswerer}


def prefix_of(kind):
    """What the paths of a model of a kind begin with in a checkpoint."""
    return f"model/{MODELS[kind]}/" if kind in MODELS else "model/"


def read(folder, log=warn_once):
    """Reads a workdir; the best or newest whole checkpoint when its weights are used.

    Returns:
        A `StoredBert`.

    Raises:
        UserError: If it is no workdir, or its vocabulary is another than that of training.
    """
    workdir = Workdir(folder)
    saved = workdir.read_config()
    if saved is None:
        raise UserError(f"A workdir of a run is needed, with a config.json. Received: {folder}")
    labels = pairs = threshold = None
    try:
        kind, config, heads = saved["kind"], saved["config"], dict(saved.get("heads", {}))
        if kind == "pretraining":
            known = {"next_sentence": True, "tie_embeddings": True}
        elif kind == "finetuning":
            found = workdir.read_labels(heads.get("num_classes"))
            labels, pairs = found["names"], found["pairs"]
            known = {"num_classes": len(labels) or 1, "dropout": config["model"]["dropout"],
                     "pooling": config["model"].get("pooling") or "cls", "multilabel": False,
                     "label_mean": 0.0, "label_deviation": 1.0}
        elif kind in ("encoder", "reading"):
            known = {}
        else:
            raise UserError(f"A workdir of a BERT is needed. Received: {folder}, of {kind}")
        if kind == "reading":
            threshold = _threshold(workdir)
        if not heads.keys() <= known.keys():
            raise ValueError(heads)
        heads = {**known, **heads}
        architecture = check_architecture(
            BertEncoder, saved["architecture"], workdir / "config.json", MOST_LAYERS)
        if kind in TASKS:  # they check their arguments
            TASKS[kind](BertEncoder(**architecture), **heads)
        lowercase = config["data"]["lowercase"]
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{workdir / 'config.json'} must be that of a run. "
                        "Received: something else") from error
    workdir.check_tokenizer(saved, ("vocab.txt",))
    vocabulary = read_vocabulary(workdir / "vocab.txt")
    if len(vocabulary) != architecture["vocabulary_size"]:
        raise UserError("The vocabulary must have a piece for each row of the token table. "
                        f"Received: {counted(len(vocabulary), 'piece')}, "
                        f"{counted(architecture['vocabulary_size'], 'row')} in "
                        f"{workdir / 'config.json'}")
    weights = _Weights(posixpath.join(str(folder), "checkpoints"), kind,
                       shapes(architecture, kind, heads), log)
    return StoredBert(kind, architecture, heads, vocabulary, lowercase, labels, weights, pairs,
                      config, threshold, began_as_released(saved))


def write(folder, stored):
    """Writes a workdir that no run goes on with, but that runs start from and that predicts.

    Args:
        folder: An empty or new one.
        stored: A `StoredBert`.
    """
    workdir = Workdir(folder)
    workdir.create()
    write_vocabulary(workdir / "vocab.txt", stored.vocabulary)
    if stored.labels is not None:
        workdir.write_json("labels.json", {"names": stored.labels, "pairs": stored.pairs})
    if stored.kind == "reading":
        workdir.write_json("reading.json", {"threshold": stored.threshold})
    prefix = prefix_of(stored.kind)
    Checkpoints(workdir / "checkpoints").save(
        0, {prefix + path: weight for path, weight in stored.weights.items()}, {"seconds": 0.0})
    workdir.start(stored.kind, config_of(stored), stored.architecture,
                  {"vocab.txt": file_sha256(workdir / "vocab.txt")}, stored.heads, converted=True)


def config_of(stored):
    """Config of a model that no run of ours made: the defaults, and what the model says."""
    if stored.config is not None:
        return stored.config
    config = pretraining_defaults() if stored.kind in ("pretraining", "encoder") else \
        finetuning_defaults()
    config = config.to_dict()
    config.pop("workdir")
    config["data"].update(lowercase=stored.lowercase, length=stored.architecture["max_length"])
    if stored.kind == "finetuning":
        config["data"]["text"] = "text"
    if stored.kind == "reading":
        half = stored.architecture["max_length"] // 2
        config["data"].update(task=READING,
                              max_question=min(config["data"]["max_question"], max(1, half - 2)))
    return config


def _threshold(workdir):
    """That of the newest evaluation, or the best where a run goes by it; else of reading.json."""
    threshold = workdir.read_threshold()
    state = Checkpoints(workdir / "checkpoints", log=lambda *_: None).read_state() or {}
    found = (state.get("best") or {}).get("found") or state.get("validation") or {}
    return found.get("threshold", threshold)


class _Weights(collections.abc.Mapping):
    """Weights of the best or newest whole checkpoint, by path below the task model."""

    def __init__(self, folder, kind, shapes, log):
        self._folder, self._shapes, self._log = folder, shapes, log
        self._prefix = prefix_of(kind)
        self._arrays = None

    def _read(self):
        if self._arrays is None:
            found = Checkpoints(self._folder, log=self._log).read_best(
                "model/", self._check)
            if found is None:
                raise UserError(f"A whole checkpoint is needed. Received: {self._folder}")
            self._arrays = {path.removeprefix(self._prefix): array
                            for path, array in found[0].items()}
        return self._arrays

    def _check(self, header):
        found = {path.removeprefix(self._prefix): kind for path, kind in header.items()}
        wanted = {path: (shape, "float32") for path, shape in self._shapes.items()}
        for path in sorted(found.keys() | wanted.keys()):
            if found.get(path) != wanted.get(path):
                raise UserError(f"{path} must be {_described(wanted.get(path))}. Received: "
                                f"{_described(found.get(path))} in {self._folder}")

    def __getitem__(self, path):
        return self._read()[path]

    def __iter__(self):
        return iter(self._read())

    def __len__(self):
        return len(self._read())


def _described(kind):
    return f"{kind[1]} {kind[0]}" if kind else "left out"
