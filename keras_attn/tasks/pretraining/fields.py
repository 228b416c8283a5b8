"""Config fields that pretraining tasks share."""

from keras_attn.field import Field
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    LIMIT,
    TEXT,
    TRAINING,
    UNLABELLED,
    describe_sources,
    family_field,
    run_fields,
)

MASKED = {
    **UNLABELLED,
    **TEXT,
    "max_predictions": Field(
        int,
        "maximum number of masked tokens per sequence; if unset, masked_fraction of length",
        above=0,
    ),
    "masked_fraction": Field(
        0.15, "fraction of tokens that are masked and predicted", above=0, high=1
    ),
    "masked_fraction_end": Field(
        float,
        "masked_fraction at the end of the run, which it approaches linearly; if unset, it is "
        "constant",
        above=0,
        high=1,
    ),
    "short_fraction": Field(
        0.1, "fraction of sequences that are shortened at random", low=0, high=1
    ),
    "whole_words": Field(False, "whole word masking"),
    "spans": Field(False, "span masking, of whole words (SpanBERT)"),
    "segments": Field(
        str,
        "segments of a sequence: next_sentence (two; BERT), sentence_order (two, half of them "
        "swapped; ALBERT), full_sentences (one; RoBERTa) or documents (one document or a part of "
        "one, for data.pack; ModernBERT); if unset, next_sentence, or full_sentences where "
        "documents have one sentence",
        choices=("next_sentence", "sentence_order", "full_sentences", "documents"),
        chosen=True,
    ),
}
AVERAGE = Field(
    0.0,
    "weight averaging: fraction of all steps at the end of the run, over which the mean of the "
    "weights is the result; 0: the last weights",
    low=0,
    high=1,
)


def pretraining_fields(family, data, training=()):
    """Returns the config fields of a pretraining task.

    Args:
        family: `FamilyFields` of the family.
        data: `Field`s of `config.data`; the family may replace some.
        training: `Field`s of `config.train` in addition to the shared ones.
    """
    return {
        **run_fields(describe_sources([family])),
        "data": {**data, **{name: field for name, field in family.data.items() if name in data}},
        "model": {**family_field(family), **family.model},
        "train": {**TRAINING, "average_fraction": AVERAGE, **dict(training)},
        "eval": {**EVAL, **LIMIT},
        "checkpoint": CHECKPOINT,
    }
