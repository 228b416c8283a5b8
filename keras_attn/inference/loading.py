"""Trained models, ready for use: texts in, vectors, guesses or classes out."""

import collections

import numpy as np
import tensorflow as tf

from keras_attn.checkpoints.saved import Saved
from keras_attn.checkpoints.saved_backbones import SavedBackbone
from keras_attn.convert.workdirs import UNBOUNDED_LENGTH
from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError, forget_warnings
from keras_attn.families import BERT, GPT_2
from keras_attn.io.finite import check_outputs
from keras_attn.runs.families import family_of
from keras_attn.tasks.causal_lm.generator import Generator
from keras_attn.tasks.classification.examples import ClassificationExamples
from keras_attn.tasks.classification.probabilities import mean_by_text, probabilities
from keras_attn.tasks.span_qa.answers import find_answers
from keras_attn.tasks.span_qa.examples import Questions, cut_windows, window_examples
from keras_attn.tasks.translation.translator import Translator, is_translator
from keras_attn.training.engines.tensorflow.strategies import check_backend

MASK = "[MASK]"
MOST_QUESTIONS = 1024  # whose windows and logits are in memory together


def load(folder, lowercase=None, precision="float32"):
    """Loads a trained model.

    Args:
        folder: A workdir, or a folder of another library; see `keras_attn.convert`.
        lowercase: Whether text is lower-cased, for a folder that does not say.
        precision: Of weights and products of what makes text; with "bfloat16" weights take half
            the memory, and processors that multiply it less time. Near-ties may fall otherwise,
            also by batch.

    Returns:
        An `Embedder`; a `MaskFiller`, if it has a masked-LM head; a `Predictor`, if it classifies;
        an `Answerer`, if it reads; a `Translator`; a `Generator`, if it tells the next token.

    Raises:
        UserError: If the folder holds no model, or `precision` is unknown or of no use to it.
    """
    check_backend()
    forget_warnings()
    if is_translator(folder):
        return Translator.load(folder, precision)
    family = family_of(folder)
    saved = (Saved(folder, lowercase) if family is BERT else
             SavedBackbone(folder, family, lowercase))
    if family is GPT_2 and saved.kind == "pretraining":
        return Generator.load(saved, precision)
    if precision != "float32":
        raise UserError("precision=float32 is needed by what makes no text. "
                        f"Received: precision={precision}, {folder}, of {saved.kind}")
    if family is not BERT and saved.kind == "pretraining":
        raise UserError("A finetuned model is needed; a pretrained XLNet is what --pretrained of "
                        f"`python -m finetune` takes. Received: {folder}, of {family.pretraining}")
    kinds = {"pretraining": MaskFiller, "finetuning": Predictor, "encoder": Embedder,
             "reading": Answerer}
    return kinds[saved.kind](saved)


class Embedder:
    """A BERT that turns texts into vectors.

    Args:
        saved: `Saved`, or for classifiers `SavedBackbone`.

    Attributes:
        model: The Keras model.
        tokenizer: That of the model.
        config: Of the run that made it.
        cut: `Counter` of the texts that were cut so far, by the length in tokens.
    """

    def __init__(self, saved):
        self.cut = collections.Counter()
        self.path, self.tokenizer, self.config = saved.path, saved.tokenizer, saved.config
        self.model = saved.make_model()
        self._run = tf.function(
            lambda batch: self.model(batch, training=False), reduce_retracing=True
        )

    @property
    def max_length(self):
        """Tokens of the longest text, with special tokens."""
        backbone = getattr(self.model, "backbone", self.model)
        return (getattr(backbone, "max_length", None) or self.config["data"].get("length")
                or UNBOUNDED_LENGTH)

    @property
    def length(self):
        """Tokens of a row: as in training, else as many as the model takes."""
        return min(self.config["data"].get("length") or self.max_length, self.max_length)

    def embed(self, texts, pooling="mean", batch_size=64):
        """Turns texts into vectors.

        Args:
            texts: List of strings; what is longer than `max_length` is cut.
            pooling: "mean" of the vectors of all tokens, or "cls", that of the first.
            batch_size: Rows worked on together; the results do not depend on it.

        Returns:
            float32 `(N, D)`.
        """
        if pooling not in ("mean", "cls"):
            raise UserError(f"pooling must be mean or cls. Received: pooling={pooling}")
        if pooling == "cls" and not self.tokenizer.row_layout.before:
            raise UserError("pooling=mean is needed by a model whose rows begin without a mark. "
                            "Received: pooling=cls")
        texts = _listed(texts)

        def vectors(batch):
            hidden = self._run(batch)["sequence_output"]
            if pooling == "cls":
                return hidden[:, 0]
            real = tf.cast(batch["padding_mask"], hidden.dtype)[:, :, None]
            return tf.reduce_sum(hidden * real, 1) / tf.reduce_sum(real, 1)

        width = getattr(self.model, "backbone", self.model).hidden_dim
        rows = self._by_batch(vectors, texts, None, batch_size, self.max_length)
        return np.concatenate([np.zeros((0, width), np.float32), *rows])

    def encode(self, texts, text_pairs=None):
        """Turns texts into a batch of the model, cut and padded like one another.

        Args:
            texts: List of strings.
            text_pairs: List of strings, or None.

        Returns:
            Dictionary of int32 arrays `(N, T)`: `token_ids`, `segment_ids`, `padding_mask`.
        """
        length = self.length
        examples = ClassificationExamples(
            _listed(texts), text_pairs, None, self.tokenizer, length=length,
            batch_size=len(texts), shuffle=False)
        self.cut[length] += examples.num_cut
        batch = TableBatches(examples).batch(0, 0, len(texts))
        return {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}

    def _by_batch(self, function, texts, text_pairs, batch_size, length, windows=None):
        """Results of a function of batches, a row for each text; the mean of its windows'."""
        if not texts:
            return []
        examples = ClassificationExamples(
            texts, text_pairs, None, self.tokenizer, length=length, batch_size=batch_size,
            shuffle=False, windows=windows,
        )
        self.cut[length] += examples.num_cut
        batches = TableBatches(examples)
        rows = [np.asarray(function(batches.batch(i, 0, batch_size)))
                for i in range(batches.num_batches)]
        rows = np.concatenate(rows)[:examples.num_examples]
        check_outputs(rows, f"the model in {self.path}")
        return [mean_by_text(rows, examples.owners, examples.num_texts)]


class MaskFiller(Embedder):
    """A pretrained BERT, which guesses hidden words besides."""

    def fill_mask(self, texts, top=5):
        """Guesses what [MASK] stands for.

        Args:
            texts: A string with one or more [MASK], or a list of them.
            top: How many guesses.

        Returns:
            For one string with one [MASK], guesses from the likeliest on: dicts of `token`,
            `probability` and `text`, which has it in place of the [MASK]. With several [MASK] a
            list of that for each; for a list of strings a list of all that.

        Raises:
            UserError: If a text has no [MASK] or is too long.
        """
        if isinstance(texts, str):
            return self._fill(texts, top)
        return [self._fill(text, top) for text in _listed(texts)]

    def _fill(self, text, top):
        pieces = text.split(MASK)
        if len(pieces) < 2:
            raise UserError(f"A text with {MASK} is needed. Received: {text!r}")
        tokens = self.tokenizer
        parts = [part.tolist() for part in np.split(*_encoded(tokens, pieces))]
        ids = [tokens.cls_id, *parts[0]]
        for part in parts[1:]:
            ids += [tokens.mask_id, *part]
        ids.append(tokens.sep_id)
        if len(ids) > self.max_length:
            raise UserError(f"A text of at most {self.max_length} tokens is needed. "
                            f"Received: {len(ids)}")
        ids = np.array([ids], np.int32)
        places = np.flatnonzero(ids[0] == tokens.mask_id)[None].astype(np.int32)
        batch = {"token_ids": ids, "segment_ids": np.zeros_like(ids),
                 "padding_mask": np.ones_like(ids), "mask_positions": places}
        logits = self._run(batch)["mlm_logits"].numpy()[0].astype(np.float64)
        check_outputs(logits, f"the model in {self.path}")
        guesses = [self._guesses(row, pieces, number, top) for number, row in enumerate(logits)]
        return guesses[0] if len(guesses) == 1 else guesses

    def _guesses(self, logits, pieces, number, top):
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        before, after = MASK.join(pieces[: number + 1]), MASK.join(pieces[number + 1 :])
        guesses = []
        for token in np.argsort(-shares, kind="stable")[:top].tolist():
            piece = self.tokenizer.vocabulary[token]
            joined = before + piece
            if self.tokenizer.continuation[token]:
                joined = before.rstrip() + piece[2:]
            guesses.append({"token": piece, "probability": float(shares[token]),
                            "text": joined + after})
        return guesses


class Predictor(Embedder):
    """A finetuned BERT, GPT-2 or XLNet, which classifies texts besides.

    Attributes:
        labels: Names of the classes, in the order of the probabilities; empty for regression.
        pairs: Whether it takes pairs of texts; None if both will do.
        kind: "single_label", "multilabel" or "regression".
        label_separator: Of several labels in a table.
        label_deviation: Of a regression: the unit of the errors in its loss.
    """

    def __init__(self, saved):
        super().__init__(saved)
        self.labels = saved.labels
        self.pairs = saved.pairs
        self.kind = "regression" if not self.labels else (
            "multilabel" if saved.heads.get("multilabel") else "single_label")
        self.label_deviation = saved.heads.get("label_deviation", 1.0)
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
            raise UserError(f"This model takes {'pairs' if self.pairs else 'single texts'}. "
                            f"Received: text_pairs={text_pairs and text_pairs[:1]}")

    def probabilities(self, texts, text_pairs=None, batch_size=64):
        """Probabilities, or the values of a regression, as an array.

        Args:
            texts, text_pairs, batch_size: As in `predict`.

        Returns:
            float64 `(N, C)`; C is 1 for regression.
        """
        texts = _listed(texts)
        if texts and isinstance(texts[0], (tuple, list)):
            texts, text_pairs = (list(column) for column in zip(*texts, strict=True))
        if texts:
            self._check_pairs(text_pairs)
        text_pairs = text_pairs and _listed(text_pairs)
        data = self.config["data"]
        rows = self._by_batch(
            lambda batch: probabilities(self._run(batch)["logits"].numpy(), self.kind),
            texts, text_pairs, batch_size, self.length, data.get("windows"))
        return np.concatenate([np.zeros((0, len(self.labels) or 1)), *rows])

    def _named(self, shares):
        if self.kind == "regression":
            return {"value": float(shares[0])}
        if self.kind == "multilabel":
            chosen = {"labels": [self.labels[number] for number in np.flatnonzero(shares > 0.5)]}
        else:
            chosen = {"label": self.labels[int(np.argmax(shares))]}
        return {**chosen, "probabilities": dict(zip(self.labels, shares.tolist(), strict=True))}


class Answerer(Embedder):
    """A finetuned BERT that finds answers in passages besides.

    Attributes:
        threshold: Where `no_answer` is above it there is no answer; None: there always is one.
    """

    def __init__(self, saved):
        super().__init__(saved)
        self.threshold = saved.threshold

    def answer(self, questions, passages, top=1, batch_size=64):
        """Answers questions by parts of passages.

        Args:
            questions: A string, or a list of them.
            passages: The passage of each, likewise; of any length.
            top: How many parts of different texts to tell of.
            batch_size: Rows worked on together; the results do not depend on it.

        Returns:
            A dict, or a list of them: `answer`, "" if there is none; `score` of the best part,
            the higher, the surer; `start` and `end`, which characters of the passage it is, or
            None; `no_answer`, how much "no answer" scores above it. With `top` above 1 also
            `spans`, the best parts as dicts of `text`, `score`, `start` and `end`.

        Raises:
            UserError: If there are not as many passages as questions, or `top` is below 1.
        """
        if top < 1:
            raise UserError(f"top must be at least 1. Received: top={top}")
        if isinstance(questions, str) and isinstance(passages, str):
            return self.answer([questions], [passages], top, batch_size)[0]
        questions, passages = _listed(questions), _listed(passages)
        if len(questions) != len(passages):
            raise UserError("As many passages as questions are needed. "
                            f"Received: {counted(len(questions), 'question')}, "
                            f"{counted(len(passages), 'passage')}")
        none = [None] * len(questions)
        found = self.find(Questions(none, questions, passages, none, none), top, batch_size)
        return [self._told(answer, top) for answer in found]

    def find(self, questions, count=1, batch_size=64):
        """Finds the best parts of passages, whether they are better than none or not.

        Args:
            questions: `Questions`.
            count, batch_size: As `top` and `batch_size` of `answer`.

        Returns:
            A list of `keras_attn.tasks.span_qa.answers.Answer`.
        """
        return [answer for first in range(0, len(questions), MOST_QUESTIONS)
                for answer in self._find(
                    questions.take(range(len(questions))[first:first + MOST_QUESTIONS]),
                    count, batch_size)]

    def _find(self, questions, count, batch_size):
        data = self.config["data"]
        windows = cut_windows(questions, self.tokenizer, length=self.length,
                              max_question=data["max_question"], stride=data["stride"])
        self.cut[data["max_question"]] += windows.cut
        batches = TableBatches(window_examples(
            windows, self.tokenizer, length=self.length, batch_size=batch_size, shuffle=False))
        logits = [row for number in range(batches.num_batches)
                  for row in self._run(batches.batch(number, 0, batch_size))["span_logits"].numpy()]
        for row in logits:
            check_outputs(row, f"the model in {self.path}")
        return find_answers(windows, logits[:len(windows)], questions.texts, data["max_answer"],
                            count)

    def _told(self, answer, top):
        best = answer.spans[0]._asdict()
        best = {"answer": best.pop("text"), **best, "no_answer": answer.no_answer}
        if self.threshold is not None and answer.no_answer > self.threshold:
            best.update(answer="", start=None, end=None)
        spans = [span._asdict() for span in answer.spans]
        return {**best, "spans": spans} if top > 1 else best


def load_predictor(folder, answers=False):
    """Loads a finetuned model; with `answers` one that reads will do, too.

    Raises:
        UserError: If the folder holds none, or another.
    """
    model = load(folder)
    if isinstance(model, Answerer) and not answers:
        raise UserError("A model that classifies is needed. "
                        f"Received: {folder}, which holds one that answers questions")
    if isinstance(model, Translator):
        raise UserError("A model that classifies is needed; `python -m finetune.translate` uses "
                        f"one that translates. Received: {folder}")
    if isinstance(model, Generator):
        raise UserError("A model that classifies is needed; `python -m pretrain.generate` uses "
                        f"one that goes on with texts. Received: {folder}")
    if not isinstance(model, (Predictor, Answerer)):
        raise UserError("A finetuned workdir is needed to predict. "
                        f"Received: {folder}, which holds no classifier")
    return model


def _listed(texts):
    if isinstance(texts, str):
        raise UserError(f"A list of texts is needed. Received: {texts!r}")
    texts = list(texts)
    for number, text in enumerate(texts):
        parts = text if isinstance(text, (tuple, list)) else [text]
        if not all(isinstance(part, str) for part in parts):
            raise UserError(f"Texts are needed. Received: {text!r:.50} as text {number + 1}")
    return texts


def _encoded(tokenizer, texts):
    """(ids of all texts, where each but the last ends): what `np.split` takes."""
    ids, ends = tokenizer.encode(texts)
    return ids, ends[:-1]
