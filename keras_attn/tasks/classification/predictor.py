"""Inference with classifiers: labels and probabilities of texts."""

import numpy as np

from keras_attn.errors import UserError, check_counts
from keras_attn.tasks.classification.probabilities import probabilities
from keras_attn.tasks.embedder import Embedder, listed


class Predictor(Embedder):
    """A finetuned classifier or regression model, which also embeds texts.

    Attributes:
        labels: Names of the classes, in the order of the probabilities; empty for regression.
        pairs: Whether the model takes pairs of texts; None: single texts or pairs.
        kind: "single_label", "multilabel" or "regression".
        label_separator: Separator of the labels of a multilabel row in tables.
        label_deviation: Standard deviation of the labels of a regression, by which the errors in
            its loss are divided.
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
            text_pairs: List of strings, if the model takes pairs of texts.
            batch_size: Batch size; the results do not depend on it.

        Returns:
            A list of dicts in the order of the texts: `label` (for multilabel `labels`, with a
            probability above 0.5) and `probabilities` (dict by label), or `value` for regression.
        """
        return [self._named(row) for row in self.probabilities(texts, text_pairs, batch_size)]

    def rank(self, query, documents, top_k=10, batch_size=64):
        """Ranks documents by the probability that they are relevant to a query.

        Args:
            query: String, the first text of each pair.
            documents: List of strings, the second texts.
            top_k: Maximum number of documents.
            batch_size: See `predict`.

        Returns:
            A list of dicts with `index`, `text` and `probability` of the second (positive) class,
            the most probable document first.

        Raises:
            UserError: If the model does not take pairs of texts, does not have two classes, or
                `top_k` is not a positive integer.
        """
        if not isinstance(query, str):
            raise UserError(f"query must be a string. Received: query={query!r:.80}")
        if self.kind != "single_label" or len(self.labels) != 2:
            raise UserError(
                "Ranking requires a classifier of two classes. "
                f"Received: {self.kind}, labels={self.labels}"
            )
        check_counts(top_k=top_k)
        documents = listed(documents)
        found = self.probabilities([query] * len(documents), documents, batch_size)[:, 1]
        return [
            {"index": int(n), "text": documents[n], "probability": float(found[n])}
            for n in np.argsort(-found, kind="stable")[:top_k]
        ]

    def encode(self, texts, text_pairs=None):
        """Returns a batch of the model; see `Embedder.encode`.

        Raises:
            UserError: If the model takes pairs of texts and `text_pairs` is None, or the converse.
        """
        self._check_pairs(text_pairs)
        return super().encode(texts, text_pairs)

    def _check_pairs(self, text_pairs):
        if self.pairs is not None and (text_pairs is not None) != self.pairs:
            raise UserError(
                f"This model takes {'pairs' if self.pairs else 'single texts'}. "
                f"Received: text_pairs={text_pairs and text_pairs[:1]}"
            )

    def probabilities(self, texts, text_pairs=None, batch_size=64):
        """Returns probabilities, or the values of a regression, as an array.

        Args:
            texts: See `predict`.
            text_pairs: See `predict`.
            batch_size: See `predict`.

        Returns:
            float64 `(N, C)`; C is 1 for regression.
        """
        texts = listed(texts, pairs=True)
        if texts and isinstance(texts[0], (tuple, list)):
            if text_pairs is not None:
                raise UserError(
                    "texts must be strings if text_pairs is given. "
                    f"Received: {texts[0]!r:.50} as text 1"
                )
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

    def _named(self, row):
        if self.kind == "regression":
            return {"value": float(row[0])}
        if self.kind == "multilabel":
            chosen = {"labels": [self.labels[number] for number in np.flatnonzero(row > 0.5)]}
        else:
            chosen = {"label": self.labels[int(np.argmax(row))]}
        return {**chosen, "probabilities": dict(zip(self.labels, row.tolist(), strict=True))}
