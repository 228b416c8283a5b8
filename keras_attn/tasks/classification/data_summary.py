"""Summary of the labeled rows of a run: classes, lengths, warnings."""

import collections

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.shards.prepare import unknown_warning
from keras_attn.data.sources.record_formats import as_number
from keras_attn.data.sources.table_formats import format_from_name
from keras_attn.data.sources.tables import format_counts
from keras_attn.data.splits import count_conflicting_labels, count_shared_rows
from keras_attn.tasks.classification.labels import MISSING
from keras_attn.tasks.finetuning.choices import describe_lengths, warn_of_few_rows

MAX_CLASSES = 30  # whose counts are listed
_READ_QUOTES = (
    "In TSV quotes are part of the text. To read quoted fields, set data.format=quoted_tsv"
)
MAX_GRADES = 10  # so few integers may be classes, such as grades and stars


def summarize_data(run, tables, targets, examples, validation_examples):
    """Prints a summary of the data before training.

    Args:
        run: `Run`.
        tables: `Table` by split; None if there is no validation split.
        targets: `keras_attn.tasks.classification.splits.Targets`.
        examples, validation_examples: `TextExamples` of the splits.
    """
    train, validation = tables["train"], tables["validation"]
    run.say(counted(len(train), "training row") + _class_counts(targets, "train") + _skipped(train))
    _summarize_training(run, train, targets, examples)
    if not validation:
        run.say("no validation rows: the results will have no metrics, and no report is written")
        return
    # A held-out split comes from the same files, whose skipped rows are counted above.
    cut = validation_examples.num_cut if run.config.data.windows is None else 0
    run.say(
        counted(len(validation), "validation row")
        + _class_counts(targets, "validation")
        + (f" · {cut:,} cut" if cut else "")
        + (
            ""
            if {name for _, name in validation.files} <= {name for _, name in train.files}
            else _skipped(validation)
        )
    )
    if "f1" in targets.metrics:
        run.say(f"the positive class of f1 is {targets.names[1]!r}")
    _warn_of_one_class(run, validation, targets, "validation", "their metrics mean little")
    shared = count_shared_rows(train, validation)
    if shared:
        overlap = counted(
            shared,
            "validation row is also a training row",
            "validation rows are also training rows",
        )
        run.say(f"warning: {overlap}: the metrics overestimate the performance on new texts")


def _summarize_training(run, train, targets, examples):
    run.say(
        describe_lengths(examples.text_lengths, "row")
        + " · "
        + (
            counted(examples.num_cut, "row") + f" truncated to {run.config.data.length} tokens"
            if run.config.data.windows is None
            else counted(examples.num_examples, "window")
            + f" of up to {run.config.data.length} tokens"
        )
    )
    warn_of_few_rows(run, examples.num_examples, "rows")
    tsv = "tsv" in {run.config.data.format or format_from_name(name) for _, name in train.files}
    for count, one, many in (
        (
            sum(not text.strip() for text in train.texts),
            "training row has no text",
            "training rows have no text",
        ),
        (
            count_conflicting_labels(train, targets.encoded["train"]),
            "training text occurs with different labels",
            "training texts occur with different labels",
        ),
        (
            tsv and _count_quoted(train.texts),
            f"text is in quotes. {_READ_QUOTES}",
            f"texts are in quotes. {_READ_QUOTES}",
        ),
    ):
        if count:
            run.say(f"warning: {counted(count, one, many)}")
    if warning := unknown_warning(examples.unknown_share, bool(run.config.pretrained)):
        run.say(warning)
    _warn_of_one_class(run, train, targets, "training", "there is nothing to learn")


def _count_quoted(texts):
    """Counts texts that look like quoted CSV fields: with doubled quotes, or all in quotes."""
    quoted = [text[1:-1] for text in texts if len(text) > 1 and text[0] == '"' == text[-1]]
    return len(quoted) if len(quoted) == len(texts) else sum('""' in text for text in quoted)


def warn_of_rare_labels(run, labels):
    """Warns of labels that are rarely classes: row names, scores and missing values."""
    counts = collections.Counter(labels)
    alone = sum(count == 1 for count in counts.values())
    if 2 * alone > len(labels):
        once = counted(alone, "label occurs", "labels occur")
        run.say(
            f"warning: {once} only once in {counted(len(labels), 'row')}. Check "
            f"data.label={run.config.data.label} and data.format, or use data.task=regression if "
            "the labels are scores"
        )
    elif _are_scores(counts):
        run.say(
            f"warning: the {len(counts):,} labels are numbers, such as {min(counts)} and "
            f"{max(counts)}, and each is a class; if they are scores, use data.task=regression"
        )
    missing = sorted(label for label in counts if label.lower() in MISSING)
    if missing:
        run.say(
            f"warning: {missing[0]!r} is a class of {counted(counts[missing[0]], 'row')}; if "
            "it denotes a missing label, leave the label empty and set data.on_bad_text=skip"
        )


def _are_scores(labels):
    """Whether labels are numbers that are unlikely to be class indices."""
    numbers = [as_number(label) for label in labels]
    if len(numbers) < 3 or None in numbers:
        return False
    counted = sorted(numbers) in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
    whole = all(number.is_integer() for number in numbers)
    return not whole or (len(numbers) > MAX_GRADES and not counted)


def _warn_of_one_class(run, table, targets, name, then):
    if targets.names and len(set(table.labels)) == 1:  # data.limit may have sampled one
        run.say(f"warning: all {name} rows have the label {table.labels[0]!r}: {then}")


def _skipped(table):
    return f" · {format_counts(table.skipped)}" if table.skipped else ""


def _class_counts(targets, split):
    if not targets.names:
        return ""
    encoded = targets.encoded[split]
    counts = (
        np.bincount(encoded, minlength=len(targets.names))
        if encoded.ndim == 1
        else encoded.sum(axis=0, dtype=np.int64)
    )
    shown = [f"{name} {count:,}" for name, count in zip(targets.names, counts, strict=True)]
    more = len(shown) - MAX_CLASSES
    more = f" and {counted(more, 'more class', 'more classes')}" if more > 0 else ""
    return ": " + ", ".join(shown[:MAX_CLASSES]) + more
