"""Inference with translation models."""

import collections

import keras
import numpy as np
from keras import ops

from keras_attn.data.sources.table_formats import is_text
from keras_attn.errors import UserError, check_counts
from keras_attn.generation import beam_search
from keras_attn.io.finite import check_outputs
from keras_attn.ops.inference import inference_function
from keras_attn.tasks.translation.batches import pad_pairs
from keras_attn.tasks.translation.parallel_text import read_parallel
from keras_attn.text.subwords import BEGIN_ID, END_ID
from keras_attn.visualize import attention_page
from keras_attn.visualize.attention_of_text import page_title

STEP = 8  # the source lengths of batches are multiples of it


def read_sentences(data, source, target, split):
    """Reads the `ParallelText` of files with the options in `config.data`."""
    return read_parallel(
        source,
        target,
        columns=(data["source_column"], data["target_column"]),
        format=data["format"],
        header=data["header"],
        encoding=data["encoding"],
        on_bad_text=data["on_bad_text"],
        split=split,
        max_line=data.get("max_line"),
    )


def most_tokens(lengths, model):
    """Returns the maximum number of tokens of each translation, independent of the batch.

    Args:
        lengths: Numbers of source tokens, with the end-of-sequence token, integers `(N,)`.
        model: `Transformer`.
    """
    limits = 3 * lengths // 2 + 10
    # Learned position embeddings limit the length.
    return ops.minimum(limits, model.max_length) if model.positions == "learned" else limits


def search_length(length, model):
    """Returns the number of search steps for a source length: a power of two, for few shapes."""
    steps = 1 << (3 * length // 2 + 9).bit_length()
    return min(steps, model.max_length) if model.positions == "learned" else steps


class Translator:
    """Translates text.

    Args:
        model: `Transformer`.
        subwords: `Subwords`.
        length: Maximum number of source tokens.
        beam: Default number of beams.
        length_penalty: Default length penalty; see `beam_search`.
        config: Config of the run, if the model was loaded.
        path: Folder of the run, if the model was loaded.
    """

    task = "translation"

    def __init__(self, model, subwords, length, beam=4, length_penalty=0.6, config=None, path=None):
        self.model, self.subwords, self.length = model, subwords, length
        self.config, self.path = config, path
        self.cut = collections.Counter()  # longer sources are errors
        self.beam, self.length_penalty = beam, length_penalty
        self._search = inference_function(self.search, model, reduce_retracing=True)

    def __repr__(self):
        return f"<{type(self).__name__} of {self.path}>"

    def translate(
        self,
        texts,
        beam=None,
        nbest=None,
        length_penalty=None,
        batch_size=32,
        alignments=False,
        stop=None,
    ):
        """Translates texts.

        Args:
            texts: List of strings; the translation of an empty string is empty.
            beam: Number of beams; 1: greedy decoding; None: as in the evaluations of the run.
            nbest: Number of translations of each text, at most `beam`; None: one, as a string.
            length_penalty: See `beam_search`; None: as in the evaluations of the run.
            batch_size: Number of texts in a batch; the results do not depend on it.
            alignments: Whether to return the attention weights; requires `nbest`.
            stop: Function that is called between batches; if it returns True, decoding stops and
                the result is None.

        Returns:
            A list of strings; with `nbest` of lists of dicts, best first: `text`, `score`,
            `log_probability`, `finished` (False: stopped at 1.5 times the source tokens plus
            ten), and with `alignments` `source_tokens`, `tokens` and `attention`
            `(tokens, source tokens)`, the mean of heads and layers.

        Raises:
            UserError: If a text has more tokens than the model was trained for.
        """
        if isinstance(texts, str):
            raise UserError(f"texts must be a list of strings. Received: {texts!r}")
        texts = list(texts)
        self.choose(beam, nbest, length_penalty, batch_size)
        if alignments and nbest is None:
            raise UserError("alignments=True requires nbest. Received: nbest=None")
        for number, text in enumerate(texts):
            if not isinstance(text, str) or not is_text(text):
                raise UserError(
                    f"Texts must be strings. Received: {text!a:.50} as text {number + 1}"
                )
        rows = self.encode(texts)
        for number, row in enumerate(rows):
            if not self.fits(row):
                raise UserError(
                    f"A text must have at most {self.length - 1} tokens. "
                    f"Received: {len(row)} in text {number + 1}, {texts[number][:50]!r}"
                )
        found = self.translate_ids(rows, beam, nbest, length_penalty, batch_size, alignments, stop)
        if nbest or found is None:
            return found
        return [row[0]["text"] for row in found]

    def attention_page(self, text, text_pair=None, beam=None, length_penalty=None):
        """Returns an `AttentionPage`: the attention of each token of the best translation to the
        source tokens, the mean of heads and layers.

        Args:
            text: String.
            text_pair: None, as translation takes no pairs.
            beam: See `translate`.
            length_penalty: See `translate`.

        Raises:
            UserError: If the text is empty or too long, or the model has no attention weights.
        """
        if text_pair is not None:
            raise UserError(f"This model takes single texts. Received: text_pair={text_pair!a:.50}")
        ((best,),) = self.translate([text], beam, 1, length_penalty, alignments=True)
        if not len(best["tokens"]):
            raise UserError(
                f"An attention page requires a translation with tokens. Received: {text!a:.50}"
            )
        weights = best["attention"][None]
        if not weights.any():
            raise UserError(
                "This model has no attention weights. Train a model with attention. "
                f"Received: {self.path}, a {type(self.model).__name__}"
            )
        title = page_title(text, best["text"])
        return attention_page(weights, best["tokens"], best["source_tokens"], title=title)

    def encode(self, texts):
        """Returns the token ids of each text."""
        ids, ends = self.subwords.encode(texts)
        return np.split(ids, ends[:-1]) if len(texts) else []

    def fits(self, row):
        """Returns whether a text with these token ids is short enough."""
        return len(row) < self.length

    def choose(self, beam=None, nbest=None, length_penalty=None, batch_size=32):
        """Returns `(beam, length_penalty)`, by default those of the run.

        Raises:
            UserError: If an argument is out of range.
        """
        beam = self.beam if beam is None else beam
        length_penalty = self.length_penalty if length_penalty is None else length_penalty
        check_counts(beam=beam, batch_size=batch_size, nbest=1 if nbest is None else nbest)
        if not 0 <= length_penalty < float("inf"):
            raise UserError(
                f"length_penalty must be at least 0. Received: length_penalty={length_penalty}"
            )
        if nbest is not None and nbest > beam:
            raise UserError(f"nbest must be in [1, beam={beam}]. Received: nbest={nbest}")
        return beam, length_penalty

    def translate_ids(
        self,
        rows,
        beam=None,
        nbest=None,
        length_penalty=None,
        batch_size=32,
        alignments=False,
        stop=None,
    ):
        """Translates the result of `encode`; returns a list of dicts for each text."""
        beam, length_penalty = self.choose(beam, nbest, length_penalty, batch_size)
        found = [None] * len(rows)
        # Batches of similar length have little padding.
        order = sorted((n for n, row in enumerate(rows) if len(row)), key=lambda n: len(rows[n]))
        for start in range(0, len(order), batch_size):
            if stop and stop():
                return None
            chosen = order[start : start + batch_size]
            for number, one in zip(
                chosen,
                self._batch([rows[n] for n in chosen], beam, length_penalty, alignments),
                strict=True,
            ):
                found[number] = one[: nbest or 1]
        empty = {"text": "", "score": 0.0, "log_probability": 0.0, "finished": True}
        if alignments:
            empty |= {"source_tokens": [], "tokens": [], "attention": np.zeros((0, 0), "float32")}
        return [one or [empty] for one in found]

    def _batch(self, rows, beam, length_penalty, alignments):
        lengths = np.array([len(row) + 1 for row in rows])
        inputs = pad_pairs(
            rows, [row[:0] for row in rows], length=-(-int(lengths.max()) // STEP) * STEP
        )
        inputs = {name: inputs[name] for name in ("token_ids", "padding_mask")}
        limits = np.asarray(most_tokens(lengths, self.model), "int32")
        longest = search_length(int(lengths.max()), self.model)
        found = self._search(inputs, limits, beam, longest, float(length_penalty), alignments)
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        return [
            self._hypotheses(rows[n], {name: value[n] for name, value in found.items()})
            for n in range(len(rows))
        ]

    def _hypotheses(self, source, found):
        check_outputs(found["scores"], "the translator")
        real = [number for number, score in enumerate(found["scores"]) if score > -1e29]
        if not real:  # NaN is never the best token
            check_outputs(np.nan, "the translator")
        tokens = [found["token_ids"][number, : found["lengths"][number]] for number in real]
        hypotheses = []
        for number, own, text in zip(real, tokens, self.subwords.decode(tokens), strict=True):
            one = {
                "text": text,
                "score": float(found["scores"][number]),
                "log_probability": float(found["log_probabilities"][number]),
                "finished": bool(found["finished"][number]),
            }
            if "attention" in found:
                one |= {
                    "source_tokens": self.subwords.pieces([*source, END_ID]),
                    "tokens": self.subwords.pieces(own),
                    "attention": found["attention"][number, : len(own), : len(source) + 1],
                }
            hypotheses.append(one)
        return hypotheses

    def search(self, inputs, limits, beam, longest, length_penalty, alignments):
        """Runs `beam_search` on a batch; row i has at most `limits[i]` of `longest` tokens."""
        mask, model = inputs["padding_mask"], self.model
        cache, memory = model.start_decoding(inputs, longest, beam)

        def step(token_ids, index, cache):
            logits, cache, *scores = model.decode(
                token_ids[:, None], index, cache, memory, mask, return_attention_scores=alignments
            )
            return logits[:, 0], cache, *(one[:, 0] for one in scores)

        source_length = ops.shape(mask)[1]  # an int if it is static
        begin = ops.full_like(mask[:, 0], BEGIN_ID)
        return beam_search(
            step,
            cache,
            begin,
            beam,
            longest,
            END_ID,
            length_penalty=length_penalty,
            return_attention=alignments,
            max_lengths=limits,
            reorder=model.reorder_cache,
            source_length=source_length if alignments else None,
        )
