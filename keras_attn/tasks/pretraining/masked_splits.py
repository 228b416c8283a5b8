"""Splits of tasks that predict masked tokens, from text or TFRecords."""

import functools
import math

from keras_attn.errors import UserError
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples, check_options
from keras_attn.tasks.pretraining.splits import (
    characters_per_target,
    check_targets,
    is_tfrecord,
    prepared_folder,
    read_splits,
    validation_of,
)


def check_masking(run):
    """Raises a `UserError` for invalid fields of `config.data` before any work."""
    data = run.config.data
    check_options(
        data.length,
        max_predictions(data),
        data.masked_fraction,
        data.short_fraction,
        run.config.train.seed,
    )
    if is_tfrecord(data, data.train) and not (run.resumed or run.pretrained or data.vocab):
        raise UserError(
            "TFRecords contain token ids, so they require data.vocab. "
            f"Received: data.vocab=None, data.train={data.train}"
        )


def max_predictions(data):
    """Returns the maximum number of masked tokens of a row."""
    if data.max_predictions is None:
        most = max(data.masked_fraction, data.get("masked_fraction_end") or 0)
        return math.ceil(most * data.length)
    return data.max_predictions


def text_sources(data):
    """Returns the sources of the splits that are text, not TFRecords, validation first."""
    sources = {"validation": validation_of(data), "train": data.train}
    return {
        split: source
        for split, source in sources.items()
        if source and not is_tfrecord(data, source)
    }


def read_masked_splits(run, tokenizer, **rates):
    """Returns the training batches of a run, and the validation batches or None.

    Args:
        run: `Run`.
        tokenizer: Its tokenizer.
        **rates: `mask_rate` and `random_rate` of `PretrainingExamples`; tokens of TFRecords have
            already been replaced.

    Raises:
        UserError: If a split has no token to predict, or TFRecords contradict the config.
    """
    train, validation = read_splits(
        run, lambda split, source: _examples(run, split, source, tokenizer, rates)
    )
    check_targets(run.config.data, train, validation)
    return train, validation


def losses_per_character(validation, tokenizer):
    """Returns `Plan.metrics` that adds `mlm_loss_per_character` to the results.

    Args:
        validation: Validation batches, whose characters are counted when they are needed.
        tokenizer: Tokenizer of the run.
    """

    @functools.cache
    def characters():
        lengths = [len(tokenizer.surface(piece)) for piece in tokenizer.vocabulary]
        return characters_per_target(validation, lengths)

    def metrics(model, results, rows, stop):
        return {**results, "mlm_loss_per_character": results["mlm_loss"] / characters()}

    return metrics


def _examples(run, split, source, tokenizer, rates):
    """Returns the examples of a split."""
    data = run.config.data
    exact = split == "validation"
    if is_tfrecord(data, source):
        if data.spans or data.segments not in (None, "next_sentence"):
            raise UserError(
                "data.segments and data.spans do not apply to TFRecords, which contain rows and "
                f"masks. Received: data.segments={data.segments}, data.spans={data.spans}"
            )
        if data.get("masked_fraction_end"):
            raise UserError(
                "data.masked_fraction_end does not apply to TFRecords, which contain masks. "
                f"Received: data.masked_fraction_end={data.masked_fraction_end}"
            )
        if data.pack > 1:
            raise UserError(
                f"TFRecords contain rows, which data.pack cannot pack. Received: {data.pack}"
            )
        from keras_attn.tasks.pretraining.tfrecords import TFRecordExamples  # imports TensorFlow

        examples = TFRecordExamples(source, tokenizer, seed=run.config.train.seed, exact=exact)
        if examples.length != data.length:
            raise UserError(
                "data.length must equal the row length of the TFRecords. Received: "
                f"data.length={data.length}, {source} has {examples.length}"
            )
        return examples
    return PretrainingExamples(
        prepared_folder(run, split, source, tokenizer),
        tokenizer,
        length=data.length,
        max_predictions=max_predictions(data),
        masked_fraction=data.masked_fraction,
        masked_fraction_end=None if exact else data.get("masked_fraction_end"),
        short_fraction=data.short_fraction,
        whole_words=data.whole_words,
        spans=data.spans,
        segments=data.segments,
        pack=1 if exact else data.pack,  # validation has a row for each example
        seed=run.config.train.seed,
        exact=exact,
        **rates,
    )
