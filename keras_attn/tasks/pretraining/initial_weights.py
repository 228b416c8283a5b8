"""Initial weights of masked language models that are computed from the training rows."""

import time

import numpy as np
from keras import ops

from keras_attn.tasks.pretraining.cooccurrences import cooccurrence_vectors

ROWS_COUNTED = 16_384  # for the output bias
TOKENS_COUNTED = 2**24  # for the token embeddings


def initializer_of(run, examples, tokenizer, new_heads):
    """Returns the function of a model that `Plan.initialize` takes.

    It reads `model.initial_embeddings` and `model.initial_bias` of the config. The backbone has a
    `token_embedding`; the task model names its output bias, if there is one, as `OUTPUT_BIAS`.

    Args:
        run: `Run`.
        examples: Training examples with masked rows.
        tokenizer: Tokenizer of the run.
        new_heads: Names of the heads that are randomly initialized.
    """
    fields, pretrained = run.config.model, not run.resumed and bool(run.pretrained)

    def initialize(model):
        if not pretrained and fields.get("initial_embeddings") == "cooccurrences":
            _initialize_embeddings(run, model.backbone, examples, tokenizer)
        if fields.get("initial_bias") == "frequencies" and model.OUTPUT_BIAS in new_heads:
            getattr(model, model.OUTPUT_BIAS).assign(log_frequencies(examples, tokenizer))

    return initialize


def log_frequencies(examples, tokenizer):
    """Returns the logarithm of each token's relative frequency, `(V,)`.

    They are counted in the first rows, with add-one smoothing; special tokens have the count 1.
    """
    rows = examples.rows(0, min(examples.num_examples, ROWS_COUNTED))
    counts = np.bincount(rows["token_ids"].ravel(), minlength=tokenizer.vocabulary_size)
    counts[tokenizer.special_ids] = 0
    return np.log((counts + 1.0) / (counts + 1.0).sum())


def true_ids(batch):
    """Returns the token ids of masked rows before masking."""
    ids, used = batch["token_ids"].copy(), batch["mask_weights"] > 0
    ids[np.nonzero(used)[0], batch["mask_positions"][used]] = batch["mask_ids"][used]
    return ids


def _initialize_embeddings(run, backbone, examples, tokenizer):
    """Sets the token embeddings to cooccurrence vectors with the mean norm of the random ones."""
    begin, table = time.monotonic(), ops.convert_to_numpy(backbone.token_embedding)
    if run.chief:
        rows = min(examples.num_examples, -(-TOKENS_COUNTED // examples.length))
        vectors = cooccurrence_vectors(
            true_ids(examples.rows(0, rows)),
            *table.shape,
            tokenizer.special_ids,
            run.config.train.seed,
        )
        vectors *= np.linalg.norm(table, axis=1).mean()
        table = np.where(vectors.any(axis=1, keepdims=True), vectors, table)
    # Sums differ by machine in their last digits.
    backbone.token_embedding.assign(run.engine.broadcast(table.ravel()).reshape(table.shape))
    run.say(
        "initialized the token embeddings from cooccurrence counts: "
        f"{time.monotonic() - begin:.1f} s"
    )
