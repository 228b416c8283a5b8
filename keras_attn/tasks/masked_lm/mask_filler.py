"""Masked language models in use: texts with [MASK] in, tokens out."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import Embedder, listed

MASK = "[MASK]"


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
        return [self._fill(text, top) for text in listed(texts)]

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
        logits = self._output(batch, "mlm_logits")[0].astype(np.float64)
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


def _encoded(tokenizer, texts):
    """(ids of all texts, where each but the last ends): what `np.split` takes."""
    ids, ends = tokenizer.encode(texts)
    return ids, ends[:-1]
