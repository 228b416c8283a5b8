"""Trained models to start from: a workdir, or a folder of another library."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from keras_attn import convert
from keras_attn.checkpoints.architectures import check_size
from keras_attn.convert.bert_workdirs import MODELS, TASKS, config_of
from keras_attn.errors import UserError
from keras_attn.families.bert.tensors import StoredBert, head_of, with_text
from keras_attn.io.shared_memory import as_tensor, new_array
from keras_attn.layers.seeds import initialized_by
from keras_attn.models import BertEncoder
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.training.variables import check_values, digest, variables_by_path

HEADS = ("mlm_dense", "mlm_norm", "mlm_bias", "mlm_embedding", "nsp_dense", "pooler",
         "logits_dense", "span_dense")
# The one table that may be longer than the one it starts from.
_POSITIONS = "bert_encoder/position_embedding/embeddings"


class Saved:
    """A trained model to start from: architecture, tokenizer and weights.

    Args:
        path: A workdir, or a folder of another library; see `keras_attn.convert`.
        lowercase: Whether text is lower-cased, for a folder that does not say.
        name: What messages call `lowercase`.

    Raises:
        UserError: If it is none of these, or does not say how to treat text.
    """

    def __init__(self, path, lowercase=None, name="lowercase"):
        self.path = path
        stored = convert.read(path)
        if not isinstance(stored, StoredBert):
            raise UserError("A model of BERT is needed. "
                            f"Received: {path}, of {stored.family.backbone.__name__}")
        stored = with_text(stored, lowercase, path, name)
        self.kind, self.config = stored.kind, config_of(stored)
        self.architecture, self.heads = stored.architecture, stored.heads
        self.labels, self.pairs, self.weights = stored.labels, stored.pairs, stored.weights
        self.threshold, self.released = stored.threshold, stored.released
        self._vocabulary, self.lowercase = stored.vocabulary, stored.lowercase

    @functools.cached_property
    def tokenizer(self):
        """The `WordPieceTokenizer`."""
        return WordPieceTokenizer(self._vocabulary, self.lowercase)

    @property
    def sha256(self):
        """Of all weights."""
        return digest(self.weights)

    def match_heads(self, wanted, new):
        """Compares the heads of a run with those that are here, before any work.

        Args:
            wanted: Names of the heads that the run needs, some of `HEADS`.
            new: Whether it may start those at random that are not here.

        Returns:
            (wanted ones that are not here, ones here that are not wanted), both sorted.

        Raises:
            UserError: If there are some of the first and `new` is False.
        """
        here = {head_of(path) for path in self.weights}.intersection(HEADS)
        missing, left = sorted(set(wanted) - here), sorted(here - set(wanted))
        if missing and not new:
            raise UserError("The heads to start from must be there, or be wanted anew "
                            f"(model.new_heads=True). Received: {self.path}, without "
                            f"{', '.join(missing)}")
        return missing, left

    def assign(self, model, new=()):
        """Sets the weights of a model; those of other tasks than its own are left.

        Args:
            model: A task model or a `BertEncoder`.
            new: Names of the heads that keep the weights they have.

        Raises:
            UserError: If others are missing or do not fit.
        """
        wanted = {path: variable for path, variable in _by_path(model).items()
                  if head_of(path) not in new}
        values = {path: self.weights[path] for path in wanted if path in self.weights}
        if _POSITIONS in values:
            values[_POSITIONS] = _repeated(values[_POSITIONS], wanted[_POSITIONS].shape[0])
        check_values(wanted, values, f"The checkpoint of {self.path}")
        # They are read, and turned, now. More threads would hold more at once.
        with ThreadPoolExecutor(2) as pool:
            for path, tensor in zip(values, pool.map(tf.convert_to_tensor, values.values()),
                                    strict=True):
                wanted[path].assign(tensor)

    def make_model(self, dtype="float32"):
        """The trained model."""
        check_size(self.architecture, self.weights, self.path)
        model = BertEncoder(**self.architecture, dtype=dtype, name="bert_encoder")
        if self.kind in TASKS:
            model = TASKS[self.kind](model, **self.heads, dtype=dtype, name=MODELS[self.kind])
        with initialized_by(_unset):
            model.build()
        self.assign(model)
        return model


def _unset(shape, dtype=None):
    """Whatever is in memory: setting it first would take as long as setting it once more."""
    return as_tensor(new_array(shape), dtype)


def _by_path(model):
    """Variables by path below the task model, as those of `StoredBert`."""
    prefix = "model/" if isinstance(model, BertEncoder) else f"model/{model.name}/"
    return {path.removeprefix(prefix): v for path, v in variables_by_path(model).items()}


def _repeated(table, rows):
    """A position table with more rows: its own again and again (Beltagy et al., Longformer, 2020,
    section 5)."""
    if table.shape[0] >= rows:
        return table
    return np.resize(np.asarray(table), (rows, table.shape[1]))
