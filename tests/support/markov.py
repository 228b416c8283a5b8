"""A language model that can be enumerated: the next token depends on the last two."""

import itertools

import numpy as np
from keras import ops

VOCABULARY, END = 5, 0
BEGIN = 4


class Markov:
    """Random logits of a token after each pair; the cache is the token before."""

    def __init__(self, seed=0, spread=2.0, rows=1):
        random = np.random.default_rng(seed)
        self.logits = spread * random.normal(size=(rows, VOCABULARY, VOCABULARY, VOCABULARY))
        self.logits = self.logits.astype("float32")

    @classmethod
    def of_seeds(cls, seeds, rows=1):
        """One model with the rows of a model of each seed, which one search decodes at once."""
        model = cls()
        model.logits = np.concatenate([cls(seed, rows=rows).logits for seed in seeds])
        return model

    def cache(self, hypotheses):
        """(row of each hypothesis, token before)."""
        rows = np.repeat(np.arange(len(self.logits)), hypotheses // len(self.logits))
        return {
            "row": ops.convert_to_tensor(rows.astype("int32")),
            "before": ops.zeros((hypotheses,), "int32"),
        }

    def step(self, token_ids, index, cache):
        table = ops.reshape(ops.convert_to_tensor(self.logits), (-1, VOCABULARY))
        place = (cache["row"] * VOCABULARY + cache["before"]) * VOCABULARY + token_ids
        return ops.take(table, place, axis=0), {"row": cache["row"], "before": token_ids}

    def log_probability(self, tokens, row=0):
        """Of a sequence, in float64."""
        total, before, last = 0.0, 0, BEGIN
        for token in tokens:
            logits = self.logits[row, before, last].astype("float64")
            total += logits[token] - np.log(np.sum(np.exp(logits)))
            before, last = last, token
        return total

    def sequences(self, length):
        """Returns all sequences that end within `length` tokens."""
        others = [token for token in range(VOCABULARY) if token != END]
        for size in range(length):
            for tokens in itertools.product(others, repeat=size):
                yield (*tokens, END)
