"""Inference with backbones: embeddings of texts."""

import collections

import numpy as np
from keras import ops

from keras_attn.data.batches import TableBatches
from keras_attn.data.text_examples import TextExamples, mean_by_text
from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.ops.inference import inference_function
from keras_attn.visualize import attention_of_text

MAX_LENGTH = 512  # tokens, for a model without a maximum length, as in the XLNet paper


class Embedder:
    """A model that computes embeddings of texts.

    Args:
        trained: `TrainedModel` with tokenizer and config.

    Attributes:
        task: Name of its task.
        path: Folder of the model.
        model: The Keras model.
        tokenizer: Its tokenizer.
        config: Config of its run.
        cut: `Counter` of truncated texts by maximum length in tokens.
    """

    def __init__(self, trained):
        self.cut = collections.Counter()
        self.task, self.path = trained.task, trained.path
        self.tokenizer, self.config = trained.tokenizer, trained.config
        self.model = trained.make_model()
        self._requires_pairs = trained.family.requires_pairs
        self._run = inference_function(
            lambda batch: self.model(batch, training=False), self.model, reduce_retracing=True
        )

    def __repr__(self):
        return f"<{type(self).__name__} of {self.path}>"

    @property
    def max_length(self):
        """Maximum number of tokens of a text, with special tokens."""
        backbone = getattr(self.model, "backbone", self.model)
        return (
            getattr(backbone, "max_length", None) or self.config["data"].get("length") or MAX_LENGTH
        )

    @property
    def length(self):
        """Row length: as in training, else `max_length`."""
        return min(self.config["data"].get("length") or self.max_length, self.max_length)

    def embed(self, texts, pooling="mean", batch_size=64):
        """Returns embeddings of texts.

        Args:
            texts: List of strings, which are truncated to `max_length`.
            pooling: "mean", the mean vector of all tokens, or "cls", the vector of the first one.
            batch_size: Batch size; the results do not depend on it.

        Returns:
            float32 `(N, D)`.

        Raises:
            UserError: If the pooling is not supported, or the model encodes pairs of texts only.
        """
        if self._requires_pairs:
            raise UserError(
                "The model encodes pairs of texts and has no embeddings of single texts. "
                f"Received: {self.path}"
            )
        if pooling not in ("mean", "cls"):
            raise UserError(f"pooling must be mean or cls. Received: pooling={pooling}")
        if pooling == "cls" and not self.tokenizer.row_layout.before:
            raise UserError(
                "pooling must be mean for a model without a [CLS] token at the start. "
                "Received: pooling=cls"
            )
        texts = listed(texts)

        def vectors(batch):
            hidden = self._run(batch)["sequence_output"]
            if pooling == "cls":
                return ops.convert_to_numpy(hidden[:, 0])
            real = ops.cast(batch["padding_mask"], hidden.dtype)[:, :, None]
            return ops.convert_to_numpy(ops.sum(hidden * real, 1) / ops.sum(real, 1))

        size = getattr(self.model, "backbone", self.model).hidden_dim
        rows = self._by_batch(vectors, texts, None, batch_size, self.max_length)
        return np.concatenate([np.zeros((0, size), np.float32), *rows])

    def encode(self, texts, text_pairs=None):
        """Returns a batch of the model, with truncated and padded texts.

        Args:
            texts: List of strings.
            text_pairs: List of strings, or None.

        Returns:
            Dictionary of int32 arrays `(N, T)`: `token_ids`, `segment_ids`, `padding_mask`.
        """
        length = self.length
        examples = TextExamples(
            listed(texts),
            text_pairs,
            None,
            self.tokenizer,
            length=length,
            batch_size=len(texts),
            shuffle=False,
        )
        self.cut[length] += examples.num_cut
        batch = TableBatches(examples).batch(0, 0, len(texts))
        return {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}

    def attention_page(self, text, text_pair=None):
        """Returns an `AttentionPage` of a text; see `keras_attn.visualize.attention_of_text`.

        Args:
            text: String, which is truncated to `length`.
            text_pair: Second text of a pair, or None.

        Raises:
            UserError: If the model has no attention weights.
        """
        return attention_of_text(self, text, text_pair)

    def _output(self, batch, name):
        """An output of the model for a batch, as an array."""
        return ops.convert_to_numpy(self._run(batch)[name])

    def _by_batch(self, function, texts, text_pairs, batch_size, length, windows=None):
        """Applies a function to batches; returns a row per text, the mean of its windows."""
        if not texts:
            return []
        examples = TextExamples(
            texts,
            text_pairs,
            None,
            self.tokenizer,
            length=length,
            batch_size=batch_size,
            shuffle=False,
            windows=windows,
        )
        self.cut[length] += examples.num_cut
        batches = TableBatches(examples)
        rows = [
            np.asarray(function(batches.batch(i, 0, batch_size)))
            for i in range(batches.num_batches)
        ]
        rows = np.concatenate(rows)[: examples.num_examples]
        check_outputs(rows, f"the model in {self.path}")
        return [mean_by_text(rows, examples.owners, examples.num_texts)]


def listed(texts):
    """Returns texts, or pairs of texts, as a list; raises a `UserError` for other types."""
    if isinstance(texts, str):
        raise UserError(f"texts must be a list of strings. Received: {texts!r}")
    texts = list(texts)
    for number, text in enumerate(texts):
        parts = text if isinstance(text, (tuple, list)) else [text]
        if not all(isinstance(part, str) for part in parts):
            raise UserError(f"Texts must be strings. Received: {text!r:.50} as text {number + 1}")
    return texts
