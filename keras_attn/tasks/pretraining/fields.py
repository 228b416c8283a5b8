"""Config fields that pretraining tasks share."""

from keras_attn.field import Field
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    LIMIT,
    TEXT,
    TRAINING,
    UNLABELLED,
    family_field,
    of_libraries,
    run_fields,
)

MASKED = {
    **UNLABELLED,
    **TEXT,
    "max_predictions": Field(
        int, "masked tokens of a row at most; without: masked_fraction of length"),
    "masked_fraction": Field(0.15, "share of tokens to predict"),
    "short_fraction": Field(0.1, "share of rows made shorter at random"),
    "whole_words": Field(False, "mask whole words"),
    "spans": Field(False, "mask spans of whole words (SpanBERT)"),
    "segments": Field(
        str, "of a row: next_sentence; sentence_order: two, half of them swapped (ALBERT); "
        "full_sentences: one (RoBERTa); unset: next_sentence, or full_sentences where documents "
        "have one sentence", choices=("next_sentence", "sentence_order", "full_sentences"),
        chosen=True),
}


def pretraining_fields(family, data):
    """Fields of a config of pretraining.

    Args:
        family: `FamilyFields` of the family.
        data: Fields of `config.data`.
    """
    return {**run_fields(of_libraries([family])), "data": data,
            "model": {**family_field(family), **family.model}, "train": TRAINING,
            "eval": {**EVAL, **LIMIT}, "checkpoint": CHECKPOINT}
