"""Reading a workdir back: its tokenizer, its weights, a model ready to predict."""

import functools
import sys

import numpy as np
import tensorflow as tf

from keras_attn.data.batches import TableBatches
from keras_attn.data.classification import ClassificationExamples
from keras_attn.data.files import file_sha256
from keras_attn.errors import UserError
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.training.checkpoints import Checkpoints, assign_values, variables_by_path
from keras_attn.training.strategies import check_backend
from keras_attn.workdir import Workdir


class Saved:
    """A workdir to start from: config, architecture, tokenizer and newest weights.

    Args:
        path: The workdir.

    Raises:
        UserError: If it is none, or holds no whole checkpoint.
    """

    def __init__(self, path):
        self.path = path
        workdir = Workdir(path)
        saved = workdir.read_config()
        if saved is None:
            raise UserError("A workdir of a run is needed, with a config.json. "
                            f"Received: {path}")
        self.kind = saved["kind"]
        self.config = saved["config"]
        self.architecture = saved["architecture"]
        self.labels = workdir.read_labels() if self.kind == "finetuning" else None
        lowercase = self.config["data"]["lowercase"]
        self.tokenizer = WordPieceTokenizer.from_file(workdir / "vocab.txt", lowercase)
        if file_sha256(workdir / "vocab.txt") != saved["data_sha256"].get("vocab.txt"):
            raise UserError("The vocabulary must be the one that the run was made with. "
                            f"Received: {workdir / 'vocab.txt'}, which has changed")

    @functools.cached_property
    def weights(self):
        """Weights of the newest whole checkpoint, by path below the model."""
        found = Checkpoints(f"{self.path}/checkpoints", log=_warn).read_newest()
        if found is None:
            raise UserError(f"A workdir with a checkpoint is needed. Received: {self.path}")
        return {path.removeprefix("model/"): value for path, value in found[0].items()
                if path.startswith("model/")}

    def assign(self, model):
        """Sets all weights of a task model, or of another task those of the backbone."""
        wanted = _by_path(model)
        if set(wanted) == set(self.weights):
            assign_values(wanted, self.weights, f"The checkpoint of {self.path}")
        else:
            self.assign_backbone(model)

    def assign_backbone(self, model):
        """Sets the weights of a task model's backbone; its heads stay as they are."""
        wanted, values = _backbone(_by_path(model)), _backbone(self.weights)
        assign_values(wanted, values, f"The checkpoint of {self.path}")

    def make_model(self, dtype="float32"):
        """The trained task model."""
        backbone = BertEncoder(**self.architecture, dtype=dtype, name="bert_encoder")
        if self.kind == "pretraining":
            model = BertPretrainer(backbone, dtype=dtype, name="bert_pretrainer")
        else:
            classes = len(self.labels["names"]) or 1
            model = BertClassifier(backbone, num_classes=classes, dtype=dtype,
                                   pooling=self.config["model"].get("pooling", "cls"),
                                   name="bert_classifier")
        model.build()
        self.assign(model)
        return model


def _warn(line):
    print(line, file=sys.stderr)


def _by_path(model):
    return {path.removeprefix("model/"): v for path, v in variables_by_path(model).items()}


def _backbone(by_path):
    """Entries below the backbone, with the path from there on."""
    marker = "bert_encoder/"
    return {path[path.index(marker):]: value for path, value in by_path.items() if marker in path}


class Predictor:
    """A finetuned workdir, ready to classify texts.

    Args:
        workdir: Folder of a finetuning run.

    Attributes:
        labels: Names of the classes, in the order of the probabilities; empty for regression.
        model: The Keras model.
        tokenizer: The `WordPieceTokenizer`.
    """

    def __init__(self, workdir):
        check_backend()
        saved = Saved(workdir)
        if saved.kind != "finetuning":
            raise UserError("A finetuned workdir is needed to predict. "
                            f"Received: {workdir}, which holds {saved.kind}")
        self.tokenizer = saved.tokenizer
        self.config = saved.config
        self.labels = saved.labels["names"]
        self.pairs = saved.labels["pairs"]
        self.model = saved.make_model()
        self._forward = tf.function(
            lambda batch: self.model(batch, training=False)["logits"], reduce_retracing=True
        )

    def predict(self, texts, text_pairs=None, batch_size=64):
        """Classifies texts.

        Args:
            texts: List of strings, or of (text, text_pair) tuples.
            text_pairs: List of strings, for a model of pairs.
            batch_size: Rows worked on together; the results do not depend on it.

        Returns:
            A list of dicts in the order of the texts: `label` and
            `probabilities` (dict by label), or `value` for regression.
        """
        if isinstance(texts, str):
            raise UserError(f"A list of texts is needed. Received: {texts!r}")
        texts = list(texts)
        if texts and isinstance(texts[0], (tuple, list)):
            texts, text_pairs = (list(column) for column in zip(*texts, strict=True))
        if (text_pairs is not None) != self.pairs:
            raise UserError(f"This model takes {'pairs' if self.pairs else 'single texts'}. "
                            f"Received: text_pairs={text_pairs and text_pairs[:1]}")
        if not texts:
            return []
        return [self._named(row) for row in self._logits(texts, text_pairs, batch_size)]

    def _logits(self, texts, text_pairs, batch_size):
        examples = ClassificationExamples(
            texts, text_pairs, None, self.tokenizer, length=self.config["data"]["length"],
            batch_size=batch_size, shuffle=False,
        )
        batches = TableBatches(examples)
        rows = [self._forward(batches.batch(i, 0, batch_size)).numpy()
                for i in range(batches.num_batches)]
        return np.concatenate(rows)[:len(texts)].astype(np.float64)

    def _named(self, logits):
        if not self.labels:
            return {"value": float(logits[0])}
        odds = np.exp(logits - logits.max())
        shares = odds / odds.sum()
        return {
            "label": self.labels[int(np.argmax(shares))],
            "probabilities": dict(zip(self.labels, shares.tolist(), strict=True)),
        }


def load(workdir):
    """Loads a finetuned workdir; see `Predictor.predict`."""
    return Predictor(workdir)

