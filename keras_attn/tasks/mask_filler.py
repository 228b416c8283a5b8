"""Inference with masked language models: prediction of masked tokens."""

import numpy as np

from keras_attn.errors import UserError, check_counts
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import Embedder, listed


class MaskFiller(Embedder):
    """A masked language model, which predicts masked tokens and turns texts into vectors."""

    def fill_mask(self, texts, top=5):
        """Predicts masked tokens.

        Args:
            texts: A string with one or more mask tokens of the tokenizer, such as `[MASK]`, or a
                list of them.
            top: Number of predictions for each mask token.

        Returns:
            For one string with one mask token, a list of predictions, the most probable first:
            dicts of `token`, `probability` and `text`, which has it in place of the mask token.
            With several mask tokens a list of such lists; for a list of strings a list of all that.

        Raises:
            UserError: If a text has no mask token or is too long.
        """
        check_counts(top=top)
        if isinstance(texts, str):
            return self._fill(texts, top)
        return [self._fill(text, top) for text in listed(texts)]

    def _fill(self, text, top):
        tokens = self.tokenizer
        pieces = text.split(tokens.mask_token)
        if len(pieces) < 2:
            raise UserError(f"The text must contain {tokens.mask_token}. Received: {text!r}")
        read = [piece.rstrip() for piece in pieces[:-1]] if tokens.mask_takes_space else pieces[:-1]
        parts = [part.tolist() for part in np.split(*_encoded(tokens, [*read, pieces[-1]]))]
        layout = tokens.row_layout
        ids = [*layout.before, *parts[0]]
        for part in parts[1:]:
            ids += [tokens.mask_id, *part]
        ids += layout.after
        if len(ids) > self.max_length:
            raise UserError(
                f"The text must have at most {self.max_length} tokens. Received: {len(ids)} tokens"
            )
        ids = np.array([ids], np.int32)
        positions = np.flatnonzero(ids[0] == tokens.mask_id)[None].astype(np.int32)
        batch = {
            "token_ids": ids,
            "segment_ids": np.zeros_like(ids),
            "padding_mask": np.ones_like(ids),
            "mask_positions": positions,
        }
        logits = self._output(batch, "mlm_logits")[0].astype(np.float64)
        check_outputs(logits, f"the model in {self.path}")
        found = [self._top_tokens(row, pieces, number, top) for number, row in enumerate(logits)]
        return found[0] if len(found) == 1 else found

    def _top_tokens(self, logits, pieces, number, top):
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        mask = self.tokenizer.mask_token
        before, after = mask.join(pieces[: number + 1]), mask.join(pieces[number + 1 :])
        found = []
        for token in np.argsort(-probabilities, kind="stable")[:top].tolist():
            piece = self.tokenizer.vocabulary[token]
            joined, surface = before + piece, self.tokenizer.surface(piece)
            if self.tokenizer.continuation[token]:
                joined = before.rstrip() + surface
            elif self.tokenizer.mask_takes_space:
                joined = f"{before.rstrip()} {surface}" if before.strip() else surface
            probability = float(probabilities[token])
            found.append({"token": piece, "probability": probability, "text": joined + after})
        return found


def _encoded(tokenizer, texts):
    """Returns the arguments of `np.split`: the ids of all texts, and the ends but the last."""
    ids, ends = tokenizer.encode(texts)
    return ids, ends[:-1]
