"""Inference with models for replaced-token detection."""

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import listed
from keras_attn.tasks.mask_filler import MaskFiller


class ReplacedTokenDetector(MaskFiller):
    """A discriminator, which detects replaced tokens and turns texts into vectors.

    Its generator, if the model has one, predicts masked tokens.
    """

    def detect(self, texts):
        """Predicts for each token of a text whether it was replaced.

        Args:
            texts: A string, or a list of them; truncated to `max_length`.

        Returns:
            For a string, a list of dicts of `token` and `probability`, that of a replaced token,
            without special tokens; for a list of strings a list of such lists.
        """
        if isinstance(texts, str):
            return self.detect([texts])[0]
        return [self._detect(text) for text in listed(texts)]

    def _detect(self, text):
        batch = self.encode([text])
        logits = self._output(batch, "rtd_logits")[0].astype(np.float64)
        check_outputs(logits, f"the model in {self.path}")
        ids, layout = batch["token_ids"][0], self.tokenizer.row_layout
        real = int(batch["padding_mask"].sum())
        return [
            {
                "token": self.tokenizer.vocabulary[ids[place]],
                "probability": float(1 / (1 + np.exp(-logits[place]))),
            }
            for place in range(len(layout.before), real - len(layout.after))
        ]

    def fill_mask(self, texts, top=5):
        if self.model.generator is None:
            raise UserError(
                "fill_mask requires a generator. Released discriminators have none. "
                f"Received: {self.path}"
            )
        return super().fill_mask(texts, top)
