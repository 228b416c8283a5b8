"""Masked language models in use: texts with [MASK] in, tokens out."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import Embedder, listed


class MaskFiller(Embedder):
    """A masked language model, which predicts masked tokens and turns texts into vectors."""

    def fill_mask(self, texts, top=5):
        """Predicts masked tokens.

        Args:
            texts: A string with one or more mask tokens, `[MASK]`, or a list of them.
            top: Number of predictions for each mask token.

        Returns:
            For one string with one mask token, a list of predictions, the most probable first:
            dicts of `token`, `probability` and `text`, which has it in place of the mask token.
            With several mask tokens a list of such lists; for a list of strings a list of all that.

        Raises:
            UserError: If a text has no mask token or is too long.
        """
        if isinstance(texts, str):
            return self._fill(texts, top)
        return [self._fill(text, top) for text in listed(texts)]

    def _fill(self, text, top):
        tokens = self.tokenizer
        pieces = text.split(tokens.mask_token)
        if len(pieces) < 2:
            raise UserError(f"A text with {tokens.mask_token} is needed. Received: {text!r}")
        parts = [part.tolist() for part in np.split(*_encoded(tokens, pieces))]
        ids = [tokens.cls_id, *parts[0]]
        for part in parts[1:]:
            ids += [tokens.mask_id, *part]
        ids.append(tokens.sep_id)
        if len(ids) > self.max_length:
            raise UserError(
                f"A text of at most {self.max_length} tokens is needed. Received: {len(ids)}"
            )
        ids = np.array([ids], np.int32)
        places = np.flatnonzero(ids[0] == tokens.mask_id)[None].astype(np.int32)
        batch = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": np.ones_like(ids),
            "mask_positions": places,
        }
        logits = self._output(batch, "mlm_logits")[0].astype(np.float64)
        check_outputs(logits, f"the model in {self.path}")
        guesses = [self._guesses(row, pieces, number, top) for number, row in enumerate(logits)]
        return guesses[0] if len(guesses) == 1 else guesses

    def _guesses(self, logits, pieces, number, top):
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        mask = self.tokenizer.mask_token
        before, after = mask.join(pieces[: number + 1]), mask.join(pieces[number + 1 :])
        guesses = []
        for token in np.argsort(-shares, kind="stable")[:top].tolist():
            piece = self.tokenizer.vocabulary[token]
            joined = before + piece
            if self.tokenizer.continuation[token]:
                joined = before.rstrip() + self.tokenizer.surface(piece)
            guesses.append(
                {"token": piece, "probability": float(shares[token]), "text": joined + after}
            )
        return guesses


def _encoded(tokenizer, texts):
    """(ids of all texts, where each but the last ends): what `np.split` takes."""
    ids, ends = tokenizer.encode(texts)
    return ids, ends[:-1]
