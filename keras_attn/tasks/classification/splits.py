"""Training and validation split of a classifier: reading, labels, hashes."""

import dataclasses

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.sources.docstrings import labelled_docstrings
from keras_attn.data.sources.files import file_sha256, texts_sha256
from keras_attn.data.sources.table_formats import format_from_name
from keras_attn.data.sources.tables import Table, read_table
from keras_attn.data.text_examples import check_windows
from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.data_summary import warn_of_rare_labels
from keras_attn.tasks.classification.labels import LabelSet, encode_labels
from keras_attn.tasks.classification.metrics import metric_names
from keras_attn.tasks.finetuning.choices import choose_rows


@dataclasses.dataclass(frozen=True)
class LabeledTask:
    """Kind of the labels, and the GLUE task if `data.task` names one.

    Attributes:
        glue: `keras_attn.tasks.classification.glue.GlueTask`, or None.
        kind: "single_label", "multilabel" or "regression".
        metrics: Names of the metrics of the GLUE task, or None.
    """

    glue: glue.GlueTask | None
    kind: str
    metrics: tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class Targets:
    """Labels of the splits.

    Attributes:
        names: Names of the classes; () for regression.
        metrics: Names of the metrics.
        encoded: Encoded labels by split; see `encode_labels`.
    """

    names: tuple[str, ...]
    metrics: tuple[str, ...]
    encoded: dict


def choose_labeled_task(data):
    """Returns the `LabeledTask` that `config.data` describes.

    Raises:
        UserError: If its fields contradict each other.
    """
    if data.windows is not None:
        check_windows(data.windows, data.length, data.text_pair)
    known = glue.glue_task(data.task)
    single = data.task in (None, "single_label") and not data.regression
    if data.group is not None and (not single or data.format == "label_text"):
        raise UserError(
            "data.group requires data.task=single_label and a format with columns. Received: "
            f"data.group={data.group}, data.task={data.task}, data.regression={data.regression}, "
            f"data.format={data.format}"
        )
    if known:
        kind = "regression" if known.regression else "single_label"
        return LabeledTask(known, kind, known.metrics)
    if data.regression and data.task not in (None, "regression"):
        raise UserError(
            f"data.regression=True contradicts data.task. Received: data.task={data.task}"
        )
    kind = "regression" if data.regression else data.task or "single_label"
    if not data.label_separator or any(sign in data.label_separator for sign in '\t\r\n"'):
        raise UserError(
            "data.label_separator must not be empty or contain tabs, quotes or line breaks. "
            f"Received: data.label_separator={data.label_separator!r}"
        )
    return LabeledTask(None, kind, None)


def read_splits(run, task):
    """Reads the data of a run.

    Args:
        run: `Run`.
        task: `LabeledTask`.

    Returns:
        (`Table` by split, the one of `validation` None if there is no validation data; `Targets`).
    """
    data = run.config.data
    tables = {
        "train": drop_headers(run, _read(data, task, "train")),
        "validation": _read(data, task, "validation"),
    }
    # Of all rows, as the rows that data.limit samples may lack a class.
    labels = _label_set(tables["train"], task, data)
    if task.kind == "single_label":
        warn_of_rare_labels(run, tables["train"].labels)

    def encoded(train):
        return encode_labels(train.labels, labels, task.kind, data.label_separator, train.where)

    by_class = encoded if labels and data.group is None else None
    unit = "rows" if data.group is None else "rows, in whole groups"
    tables = choose_rows(run, tables, unit, by_class)
    targets = _targets(tables, task, labels, data.label_separator, run.config.eval.metric)
    if data.group is not None:
        check_ranking(task.kind, targets.names, f"data.group={data.group}")
    if data.group is not None and tables["validation"]:
        validation = tables["validation"]
        check_groups(
            validation.groups, targets.encoded["validation"], targets.names[1], validation.where
        )
        shared = len({*tables["train"].groups}.intersection(validation.groups))
        if shared:
            run.say(
                f"warning: {counted(shared, 'group')} of the validation rows "
                f"{'is' if shared == 1 else 'are'} in the training rows, too: the metrics are "
                "too high for new groups"
            )
    return tables, targets


def check_ranking(kind, names, received):
    """Raises a `UserError` unless a classifier can rank the rows of groups: it has two classes.

    Args:
        kind: See `LabeledTask`.
        names: Names of the classes.
        received: The field or option that names the groups, for the message.
    """
    if kind != "single_label" or len(names) != 2:
        raise UserError(
            "Ranking the rows of groups requires single labels of two classes, relevant and not. "
            f"Received: {received}, {kind}{' of ' if names else ''}{', '.join(names)}"
        )


def check_groups(groups, labels, positive, where):
    """Checks that each group has a relevant row.

    Args:
        groups: Names `(N,)`.
        labels: Indices of classes `(N,)`; the rows of class 1 are relevant.
        positive: Name of class 1.
        where: Function from the number of a row to its location.

    Raises:
        UserError: If one of them does not.
    """
    relevant = {group for group, label in zip(groups, labels, strict=True) if label == 1}
    for row, group in enumerate(groups):
        if group not in relevant:
            raise UserError(
                f"Every group of the evaluated rows must have a row with the label {positive!r} "
                "(data.positive). Remove the group or correct its labels. Received: group "
                f"{group!r:.80} in {where(row)}"
            )


def drop_headers(run, table):
    """Removes header lines from files whose columns are given by number."""
    data = run.config.data
    columns = (data.text, data.text_pair, data.label, data.group)
    by_number = all(column is None or str(column).isdigit() for column in columns)
    formats = {data.format or format_from_name(name) for _, name in table.files}
    if (
        data.header is not None
        or data.text is None
        or not by_number
        or not formats <= {"csv", "tsv", "quoted_tsv"}
    ):
        return table
    found = table.find_headers(data.label_separator if data.task == "multilabel" else None)
    if found == "maybe":
        run.say(
            f"warning: {table.where(0)} may contain the column names; if so, set data.header=True"
        )
    if found != "yes":
        return table
    run.set_field("data.header", True)
    run.say(
        f"warning: {table.where(0)} contains the column names: using data.header=True (set "
        "data.header=False to read the line as a row)"
    )
    return table.without_first_rows()


def hashes_of(run, tables):
    """Returns the SHA-256 of the tokenizer, the data files and the rows of each split."""
    hashes = run.tokenizer_hashes()
    for split, table in tables.items():
        if table:
            hashes.update(
                {
                    name: file_sha256(name)
                    for _, name in table.files
                    if name != "docstrings" and not name.startswith("tfds:")
                }
            )
            columns = (table.texts, table.text_pairs or (), table.labels or ())
            hashes[f"{split} rows"] = texts_sha256(columns)
    return hashes


def _read(data, task, split):
    """Reads the `Table` of a split; None if there is no validation data."""
    if data[split] == "docstrings" or (data[split] is None and data.train == "docstrings"):
        texts, labels = labelled_docstrings(split)
        return Table(texts, None, labels, {}, np.arange(len(texts)), [(0, "docstrings")])
    source = data[split]
    names = ("text", "text_pair", "label", "group")
    columns = {name: data[name] for name in names}
    if task.glue:
        source = _glue_source(data, task, split)
        known = task.glue.columns(source) if source else {}
        columns = {
            name: value if value is not None else known.get(name) for name, value in columns.items()
        }
    if not source:
        if split == "train":
            raise UserError(
                "data.train must be set to the training data: a file, a glob or tfds:NAME. "
                "Received: data.train=None"
            )
        return None
    for name, content in {"text": "texts", "label": "labels"}.items():
        if columns[name] is None and data.format != "label_text":
            raise UserError(
                f"data.{name} must be set to the column of the {content}. "
                f"Received: data.{name}=None"
            )
    if data.format == "label_text":
        columns = {"text": "text", "label": "label"}
    return read_table(
        source,
        **columns,
        format=data.format,
        header=data.header,
        encoding=data.encoding,
        on_bad_text=data.on_bad_text,
        split=split,
        unlabelled=task.kind == "multilabel",
        max_line=data.max_line,
    )


def _glue_source(data, task, split):
    """Returns the source of a split: as given, in the folder of the GLUE task, or in TFDS."""
    given = data[split]
    if given is None and data.train and gfile.isdir(data.train):
        given = data.train
    return task.glue.source(given, split) if given or not data.train else None


def _label_set(table, task, data):
    """Returns the `LabelSet` of the training data; None for regression."""
    if data.positive is not None and (task.glue or task.kind != "single_label"):
        raise UserError(
            "data.positive is supported with data.task=single_label only. Received: "
            f"data.positive={data.positive}, data.task={data.task}"
        )
    if task.kind == "regression":
        return None
    if task.kind == "multilabel":
        return LabelSet.from_lists(table.labels, data.label_separator, table.where)
    if task.glue:
        return task.glue.label_set()
    if len(set(table.labels)) == 1:
        raise UserError(
            f"The training data must have at least two classes, but all {len(table):,} labels are "
            f"{table.labels[0]!r}. Is data.label the right column? Received: "
            f"data.train={data.train}, data.label={data.label}"
        )
    return LabelSet.from_labels(table.labels, data.positive)


def _targets(tables, task, labels, separator, chosen):
    encoded = {
        split: encode_labels(table.labels, labels, task.kind, separator, table.where)
        for split, table in tables.items()
        if table
    }
    metrics = metric_names(task.kind, len(labels or ()), task.metrics, chosen)
    return Targets(labels.names if labels else (), metrics, encoded)
