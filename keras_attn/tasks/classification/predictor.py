"""Classifiers in use: texts in, labels and probabilities out."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.tasks.classification.probabilities import probabilities
from keras_attn.tasks.embedder import Embedder, listed


class Predictor(Embedder):
    """A finetuned BERT, GPT-2 or XLNet, which classifies texts besides.

    Attributes:
        labels: Names of the classes, in the order of the probabilities; empty for regression.
        pairs: Whether it takes pairs of texts; None if both will do.
        kind: "single_label", "multilabel" or "regression".
        label_separator: Of several labels in a table.
        label_deviation: Of a regression: the unit of the errors in its loss.
    """

    def __init__(self, trained):
        super().__init__(trained)
        self.labels = trained.files["labels"]
        self.pairs = trained.files.get("pairs")
        self.kind = (
            "regression"
            if not self.labels
            else ("multilabel" if trained.heads.get("multilabel") else "single_label")
        )
        self.label_deviation = trained.heads.get("label_deviation", 1.0)
        self.label_separator = self.config["data"].get("label_separator", ",")

    def predict(self, texts, text_pairs=None, batch_size=64):
        """Classifies texts.

        Args:
            texts: List of strings, or of (text, text_pair) tuples.
            text_pairs: List of strings, for a model of pairs.
            batch_size: Rows worked on together; the results do not depend on it.

        Returns:
            A list of dicts in the order of the texts: `label` (of multilabel `labels`, those of
            more than one half) and `probabilities` (dict by label), or `value` for regression.
        """
        return [self._named(row) for row in self.probabilities(texts, text_pairs, batch_size)]

    def encode(self, texts, text_pairs=None):
        """As of `Embedder`; raises a `UserError` if the model takes pairs and these are none."""
        self._check_pairs(text_pairs)
        return super().encode(texts, text_pairs)

    def _check_pairs(self, text_pairs):
        if self.pairs is not None and (text_pairs is not None) != self.pairs:
            raise UserError(
                f"This model takes {'pairs' if self.pairs else 'single texts'}. "
                f"Received: text_pairs={text_pairs and text_pairs[:1]}"
            )

    def probabilities(self, texts, text_pairs=None, batch_size=64):
        """Probabilities, or the values of a regression, as an array.

        Args:
            texts: As in `predict`.
            text_pairs: As in `predict`.
            batch_size: As in `predict`.

        Returns:
            float64 `(N, C)`; C is 1 for regression.
        """
        texts = listed(texts)
        if texts and isinstance(texts[0], (tuple, list)):
            texts, text_pairs = (list(column) for column in zip(*texts, strict=True))
        if texts:
            self._check_pairs(text_pairs)
        text_pairs = text_pairs and listed(text_pairs)
        data = self.config["data"]
        rows = self._by_batch(
            lambda batch: probabilities(self._output(batch, "logits"), self.kind),
            texts,
            text_pairs,
            batch_size,
            self.length,
            data.get("windows"),
        )
        return np.concatenate([np.zeros((0, len(self.labels) or 1)), *rows])

    def _named(self, shares):
        if self.kind == "regression":
            return {"value": float(shares[0])}
        if self.kind == "multilabel":
            chosen = {"labels": [self.labels[number] for number in np.flatnonzero(shares > 0.5)]}
        else:
            chosen = {"label": self.labels[int(np.argmax(shares))]}
        return {**chosen, "probabilities": dict(zip(self.labels, shares.tolist(), strict=True))}
