"""Inference with taggers: tags of words, and entities of texts."""

from collections.abc import Iterable

import numpy as np

from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.ops.inference import inference_function
from keras_attn.tasks.embedder import Embedder, listed, rows_of_batches
from keras_attn.tasks.tagging.examples import (
    cut_windows,
    sentence_examples,
    tokenize_words,
    values_of_words,
)
from keras_attn.tasks.tagging.schemes import RAW, entities, valid_iob2
from keras_attn.text.words import word_spans


class Tagger(Embedder):
    """A finetuned tagger, which also embeds texts.

    Attributes:
        labels: Names of the tags.
        scheme: "iob2" for entities, or "raw".
    """

    def __init__(self, trained):
        super().__init__(trained)
        self.labels, self.scheme = trained.files["labels"], trained.files["scheme"]
        self._run_probabilities = inference_function(
            self._all_probabilities, self.model, reduce_retracing=True
        )

    def tag(self, sentences, batch_size=64):
        """Predicts the tag of each word.

        Args:
            sentences: List of lists of words.
            batch_size: Batch size; the results do not depend on it.

        Returns:
            A list of dicts in the order of the sentences: `tags`, a tag per word, in valid IOB2
            unless they are raw; and `probabilities`, those of the tags that the model predicted.

        Raises:
            UserError: If a sentence is not a list of words.
        """
        sentences = [_checked(sentence) for sentence in listed_sentences(sentences)]
        tags, probabilities = self._values_of_words(
            self._run, ("tags", "tag_probabilities"), [s for s in sentences if s], batch_size
        )
        found, start = [], 0
        for sentence in sentences:
            chosen = slice(start, start := start + len(sentence))
            found.append(
                {
                    "tags": valid_tags([self.labels[n] for n in tags[chosen]], self.scheme),
                    "probabilities": probabilities[chosen].tolist(),
                }
            )
        return found

    def predict(self, texts, batch_size=64):
        """Predicts the tags of the words of texts.

        Words end at whitespace; punctuation, symbols and Chinese characters are words of their own.
        For texts that are split into words otherwise, see `tag`.

        Args:
            texts: List of strings.
            batch_size: Batch size; the results do not depend on it.

        Returns:
            A list of dicts in the order of the texts. `words`: dicts of `text`, `start` and `end`,
            its characters, `tag` and `probability`. Unless the tags are raw, also `entities`: dicts
            of `type`, `text`, `start`, `end` and `probability`, the mean over its words.
        """
        texts = listed(texts)
        spans = word_spans(texts)
        sentences = [
            [text[slice(*span)] for span in own] for text, own in zip(texts, spans, strict=True)
        ]
        tagged = self.tag(sentences, batch_size)
        return [self._described(*row) for row in zip(texts, spans, tagged, strict=True)]

    def probabilities(self, sentences, batch_size=64):
        """Predicts the probabilities of all tags of each word.

        Args:
            sentences: See `tag`.
            batch_size: See `tag`.

        Returns:
            float32 `(W, K)`: a row for each word of all sentences, with the probabilities of
            `labels`; with a conditional random field the marginal probabilities.
        """
        sentences = [_checked(sentence) for sentence in listed_sentences(sentences)]
        (found,) = self._values_of_words(
            self._run_probabilities, ("probabilities",), [s for s in sentences if s], batch_size
        )
        return found.reshape(-1, len(self.labels))

    def _all_probabilities(self, batch):
        logits = self.model(batch, training=False)["logits"]
        return {"probabilities": self.model.probabilities(logits, batch)}

    def _values_of_words(self, function, names, sentences, batch_size):
        """Returns outputs of a function of batches at the first tokens of all words: `(W, …)`."""
        if not sentences:
            return [np.zeros(0) for _ in names]
        tokens = tokenize_words(sentences, self.tokenizer)
        room = self.length - self.tokenizer.row_layout.count(False)
        windows = cut_windows(tokens, room, self.config["data"]["windows"])
        batch_size = rows_of_batches(batch_size, len(windows))
        examples = sentence_examples(
            tokens,
            None,
            self.tokenizer,
            length=self.length,
            windows=windows,
            batch_size=batch_size,
            shuffle=False,
        )
        self.cut[self.length] += examples.num_cut  # words longer than a window
        batches, rows = TableBatches(examples), {name: [] for name in names}
        for number in range(batches.num_batches):
            outputs = function(batches.batch(number, 0, batch_size))
            for name, own in rows.items():
                own += [*np.asarray(outputs[name])]
        for row in rows[names[-1]]:
            check_outputs(row, f"the model in {self.path}")
        return [
            values_of_words(own[: len(windows)], windows, tokens, self.tokenizer)
            for own in rows.values()
        ]

    def _described(self, text, spans, tagged):
        tags, probabilities = tagged["tags"], tagged["probabilities"]
        words = [
            {"text": text[start:end], "start": start, "end": end, "tag": tag, "probability": p}
            for (start, end), tag, p in zip(spans, tags, probabilities, strict=True)
        ]
        if self.scheme == RAW:
            return {"words": words}
        found = []
        for kind, first, last in entities(tags):
            start, end = spans[first][0], spans[last - 1][1]
            found.append(
                {
                    "type": kind,
                    "text": text[start:end],
                    "start": start,
                    "end": end,
                    "probability": float(np.mean(probabilities[first:last])),
                }
            )
        return {"words": words, "entities": found}


def valid_tags(tags, scheme):
    """Returns the predicted tags of a sentence, in valid IOB2 unless they are raw."""
    return tags if scheme == RAW else valid_iob2(tags)


def tags_of_windows(rows, windows, tokens, tokenizer, names, scheme):
    """Returns the tags of each sentence; see `valid_tags`.

    Args:
        rows: Indices of the tags of the tokens of each window.
        windows, tokens, tokenizer: See `values_of_words`.
        names: Names of the tags.
        scheme: Their scheme.
    """
    numbers = values_of_words(rows[: len(windows)], windows, tokens, tokenizer)
    tags = [names[number] for number in numbers.astype(int)]
    return [
        valid_tags(tags[first:last], scheme)
        for first, last in zip(tokens.bounds[:-1], tokens.bounds[1:], strict=True)
    ]


def listed_sentences(sentences):
    """Returns sentences as a list; raises a `UserError` unless they are lists of words."""
    wrong = isinstance(sentences, str) or not isinstance(sentences, Iterable)
    sentences = [sentences] if wrong else list(sentences)
    for sentence in sentences:
        if isinstance(sentence, str) or not isinstance(sentence, Iterable):
            raise UserError(
                "sentences must be a list of lists of words; use predict for texts. "
                f"Received: {sentence!r:.80}"
            )
    return sentences


def _checked(sentence):
    words = list(sentence)
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise UserError(f"Words must be non-empty strings. Received: {word!r}")
    return words
