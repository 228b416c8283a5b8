"""Inference with backbones: embeddings of texts."""

import collections
from collections.abc import Iterable

import numpy as np
from keras import ops

from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.data.batches import TableBatches
from keras_attn.data.text_examples import TextExamples, mean_by_text
from keras_attn.errors import UserError, check_choice, check_counts, nearest
from keras_attn.io.finite import check_outputs
from keras_attn.models.text_embedder import POOLINGS, pool
from keras_attn.ops.inference import inference_function
from keras_attn.visualize import attention_of_text

_ROWS = 64  # of a batch by default
_QUERIES = 1024  # queries whose similarities are in memory
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
        text_settings: `TextSettings`: maximum length, prompts and lower-casing of embeddings.
        cut: `Counter` of truncated texts by maximum length in tokens.
    """

    def __init__(self, trained):
        self.cut = collections.Counter()
        self.task, self.path = trained.task, trained.path
        self.tokenizer, self.config = trained.tokenizer, trained.config
        self.text_settings = trained.files.get("text", TextSettings())
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
        length = (
            getattr(backbone, "max_length", None) or self.config["data"].get("length") or MAX_LENGTH
        )
        return min(length, self.text_settings.max_length or length)

    @property
    def length(self):
        """Row length: as in training, else `max_length`."""
        return min(self.config["data"].get("length") or self.max_length, self.max_length)

    def embed(self, texts, pooling=None, batch_size=64, prompt=None):
        """Returns embeddings of texts.

        Args:
            texts: List of strings, which are truncated to `max_length`.
            pooling: One of `keras_attn.models.text_embedder.POOLINGS`, such as "mean" (of all
                tokens) or "cls" (the first token), without the head of the model. None: the head of
                the model, with its pooling, dense layers and normalization, or "mean" for a model
                without one.
            batch_size: Batch size; the results do not depend on it.
            prompt: Name of a prompt of the model, or a text to put before each text, such as
                "query: "; "": no prompt; None: the model's default.

        Returns:
            float32 `(N, D)`.

        Raises:
            UserError: If the pooling or the prompt is not supported, or the model encodes pairs of
                texts only.
        """
        if self._requires_pairs:
            raise UserError(
                "The model encodes pairs of texts and has no embeddings of single texts. "
                f"Received: {self.path}"
            )
        if pooling is not None:
            check_choice("pooling", pooling, POOLINGS)
        if pooling == "cls" and not self.tokenizer.row_layout.before:
            raise UserError(
                "pooling must not be cls for a model without a [CLS] token at the start. "
                "Received: pooling=cls"
            )
        prompt = self._prompt(prompt)
        texts = [self._input(prompt + text) for text in listed(texts)]
        skipped = self._unpooled(prompt)

        def vectors(batch):
            mask = batch["padding_mask"] * (np.arange(batch["padding_mask"].shape[1]) >= skipped)
            outputs = self._run({**batch, "pooling_mask": mask.astype(np.int32)})
            if pooling is None and "embedding" in outputs:
                return ops.convert_to_numpy(outputs["embedding"])
            return ops.convert_to_numpy(pool(outputs["sequence_output"], mask, pooling or "mean"))

        rows = self._by_batch(vectors, texts, None, batch_size, self.max_length)
        return np.concatenate([np.zeros((0, self._size(pooling)), np.float32), *rows])

    def similarity(self, texts, others, **options):
        """Returns the cosine similarities of texts with other texts.

        Args:
            texts: List of N strings.
            others: List of M strings.
            **options: Further arguments of `embed`.

        Returns:
            float32 `(N, M)`.
        """
        first, second = (_unit(self.embed(part, **options)) for part in (texts, others))
        return first @ second.T

    def search(
        self, queries, documents, top_k=10, query_prompt=None, document_prompt=None, **options
    ):
        """Finds the most similar documents of queries.

        Args:
            queries: List of strings.
            documents: List of strings.
            top_k: Maximum number of documents of a query.
            query_prompt: `prompt` of `embed` for the queries.
            document_prompt: `prompt` of `embed` for the documents.
            **options: Further arguments of `embed`.

        Returns:
            A list for each query of dicts with `index`, `text` and `similarity`, the most similar
            document first.

        Raises:
            UserError: If `top_k` is not a positive integer.
        """
        check_counts(top_k=top_k)
        queries, documents = listed(queries), listed(documents)
        vectors, found = _unit(self.embed(documents, prompt=document_prompt, **options)), []
        for start in range(0, len(queries), _QUERIES):
            part = queries[start : start + _QUERIES]
            for scores in _unit(self.embed(part, prompt=query_prompt, **options)) @ vectors.T:
                best = np.argsort(-scores, kind="stable")[:top_k]
                found.append(
                    [
                        {"index": int(n), "text": documents[n], "similarity": float(scores[n])}
                        for n in best
                    ]
                )
        return found

    def _size(self, pooling):
        """Returns the size of the embeddings."""
        size = getattr(self.model, "backbone", self.model).hidden_dim
        head = None if pooling else getattr(self.model, "embedding_head", None)
        return head.output_dim(size) if head else size

    def _prompt(self, prompt):
        """Returns the text of a prompt; see `embed`."""
        prompts = self.text_settings.prompts
        prompt = self.text_settings.default_prompt if prompt is None else prompt
        if isinstance(prompt, str) and prompt in prompts:
            return prompts[prompt]
        # A single word is a misspelled name: as a text it would join the first word of each text.
        if isinstance(prompt, str) and prompt.isascii() and prompt.isidentifier():
            raise UserError(
                f"prompt must be {', '.join(prompts) or 'a text'}"
                f"{' or a text' if prompts else ''} that ends in a space or punctuation, such as "
                f"'query: '. Received: prompt={prompt!r}{nearest(prompt, prompts)}"
            )
        if not isinstance(prompt, str | type(None)):
            raise UserError(f"prompt must be a string. Received: prompt={prompt!r:.50}")
        return prompt or ""

    def _input(self, text):
        """Returns a text as the tokenizer receives it."""
        return self.text_settings.cased(text, self.tokenizer)

    @property
    def changes_texts(self):
        """Whether texts have a default prompt, or are lower-cased before the tokenizer."""
        return bool(self._prompt(None)) or self._input("A") != "A"

    def _unpooled(self, prompt):
        """Returns how many tokens at the start of each row are not pooled."""
        if not prompt or self.text_settings.include_prompt:
            return 0
        layout = self.tokenizer.row_layout
        ids, _ = self.tokenizer.encode([self._input(prompt)])
        return min(len(layout.before) + len(ids), self.max_length - len(layout.after))

    def encode(self, texts, text_pairs=None):
        """Returns a batch of the model, with truncated and padded texts.

        Args:
            texts: List of strings.
            text_pairs: List of strings, or None.

        Returns:
            Dictionary of int32 arrays `(N, T)`: `token_ids`, `segment_ids`, `padding_mask`.
        """
        length, texts = self.length, listed(texts)
        examples = TextExamples(
            texts,
            text_pairs and listed(text_pairs),
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
        batch_size = rows_of_batches(batch_size, len(texts))
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


def _unit(vectors):
    """Divides vectors by their norm."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def rows_of_batches(batch_size, count):
    """Returns a batch size with few padding rows: at most the number of texts, or the default.

    Args:
        batch_size: As given, a positive integer.
        count: Number of texts.
    """
    check_counts(batch_size=batch_size)
    return min(batch_size, max(count, _ROWS))


def listed(texts, pairs=False):
    """Returns texts as a list.

    Args:
        texts: Strings.
        pairs: Whether they may also be pairs of strings.

    Raises:
        UserError: If they are not.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise UserError(f"texts must be a list of strings. Received: {texts!r:.80}")
    texts = list(texts)
    # The first one decides, as a string of two characters would become a pair.
    size = 2 if pairs and texts and isinstance(texts[0], (tuple, list)) else None
    for number, text in enumerate(texts):
        pair = size and isinstance(text, (tuple, list)) and len(text) == size
        parts = text if pair else [text]
        if size and not pair or not all(isinstance(part, str) for part in parts):
            raise UserError(
                f"Texts must be {'pairs of strings' if size else 'strings'}. "
                f"Received: {text!r:.50} as text {number + 1}"
            )
    return texts
