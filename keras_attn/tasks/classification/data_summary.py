"""What a run says of labelled rows: classes, lengths, and what may be wrong with them."""

import collections

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.shards.prepare import unknown_warning
from keras_attn.data.sources.record_formats import as_number
from keras_attn.data.sources.table_formats import format_from_name
from keras_attn.data.sources.tables import format_counts
from keras_attn.data.splits import count_conflicting_labels, count_shared_rows
from keras_attn.tasks.classification.labels import MISSING
from keras_attn.tasks.finetuning.choices import tell_few_rows, told_lengths

MOST_CLASSES = 30  # whose rows are told
_READ_QUOTES = (
    "In TSV quotes are part of the text. To read quoted fields, set data.format=quoted_tsv"
)
FEW_SCORES = 10  # whole numbers that may well be classes: grades, stars


def tell_rows(run, tables, targets, examples, validation_examples):
    """Says what the rows are, before anything is learnt from them.

    Args:
        run: `Run`.
        tables: `Table` of each split, `train` and `validation`, the latter None without.
        targets: Of both: `names` of the classes, `metrics`, and `encoded` labels by split.
        examples, validation_examples: `TextExamples` of the splits.
    """
    train, validation = tables["train"], tables["validation"]
    run.say(counted(len(train), "training row") + _class_counts(targets, "train") + _skipped(train))
    run.say(
        told_lengths(examples.text_lengths, "row")
        + " · "
        + (
            counted(examples.num_cut, "row") + f" cut at {run.config.data.length} tokens"
            if run.config.data.windows is None
            else counted(examples.num_examples, "window")
            + f" of up to {run.config.data.length} tokens"
        )
    )
    tell_few_rows(run, examples.num_examples, "rows")
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
    if warning := unknown_warning(examples.unknown_share):
        run.say(warning)
    _warn_of_one_class(run, train, targets, "training", "there is nothing to tell apart")
    if not validation:
        run.say("no validation rows: the results will hold no metrics, and there will be no report")
        return
    # What is held out is of the same files, whose skipped rows are told already.
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
        run.say(f"f1 is that of {targets.names[1]!r}")
    _warn_of_one_class(run, validation, targets, "validation", "their metrics say little")
    shared = count_shared_rows(train, validation)
    if shared:
        overlap = counted(
            shared,
            "validation row is a training row, too",
            "validation rows are training rows, too",
        )
        run.say(f"warning: {overlap}: their metrics say nothing about new texts")


def _count_quoted(texts):
    """How many texts look like quoted fields of CSV: they hold quotes, or all are in quotes."""
    quoted = [text[1:-1] for text in texts if len(text) > 1 and text[0] == '"' == text[-1]]
    return len(quoted) if len(quoted) == len(texts) else sum('""' in text for text in quoted)


def warn_of_rare_labels(run, labels):
    """Warns of labels that look like names of the rows, or like numbers that measure."""
    counts = collections.Counter(labels)
    alone = sum(count == 1 for count in counts.values())
    if 2 * alone > len(labels):
        once = counted(alone, "label occurs", "labels occur")
        run.say(
            f"warning: {once} only once in {counted(len(labels), 'row')}: are they classes "
            f"(data.label={run.config.data.label}, data.format)? Numbers that measure are for "
            "data.task=regression"
        )
    elif _are_scores(counts):
        run.say(
            f"warning: the {len(counts):,} labels are numbers, such as {min(counts)} and "
            f"{max(counts)}, and each is a class of its own: if they measure something, use "
            "data.task=regression"
        )
    missing = sorted(label for label in counts if label.lower() in MISSING)
    if missing:
        run.say(
            f"warning: {missing[0]!r} is a class of {counted(counts[missing[0]], 'row')}: if "
            "it stands for a missing label, leave it empty and set data.on_bad_text=skip"
        )


def _are_scores(labels):
    """Whether labels are numbers of which most cannot be the numbers of classes."""
    numbers = [as_number(label) for label in labels]
    if len(numbers) < 3 or None in numbers:
        return False
    counted = sorted(numbers) in (list(range(len(numbers))), list(range(1, len(numbers) + 1)))
    whole = all(number.is_integer() for number in numbers)
    return not whole or (len(numbers) > FEW_SCORES and not counted)


def _warn_of_one_class(run, table, targets, name, then):
    if targets.names and len(set(table.labels)) == 1:  # a draw (data.limit) may miss the others
        run.say(f"warning: all {name} rows are of {table.labels[0]!r}: {then}")


def _skipped(table):
    return f" · {format_counts(table.skipped)} left out" if table.skipped else ""


def _class_counts(targets, split):
    if not targets.names:
        return ""
    encoded = targets.encoded[split]
    counts = (
        np.bincount(encoded, minlength=len(targets.names))
        if encoded.ndim == 1
        else encoded.sum(axis=0, dtype=np.int64)
    )
    told = [f"{name} {count:,}" for name, count in zip(targets.names, counts, strict=True)]
    more = len(told) - MOST_CLASSES
    more = f" and {counted(more, 'more class', 'more classes')}" if more > 0 else ""
    return ": " + ", ".join(told[:MOST_CLASSES]) + more
