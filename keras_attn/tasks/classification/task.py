"""Finetuning a classifier: labelled texts in, a workdir that classifies out."""

import dataclasses
import hashlib

import numpy as np
import tensorflow as tf

from keras_attn.data.batches import TableBatches
from keras_attn.data.sources.docstrings import labelled_docstrings
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.table_formats import told_format
from keras_attn.data.sources.tables import Table, read_table
from keras_attn.errors import UserError
from keras_attn.runs.families import choose_architecture, family_of
from keras_attn.runs.run import Run
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.baseline import compute_baselines
from keras_attn.tasks.classification.data_summary import tell_rows, warn_of_rare_labels
from keras_attn.tasks.classification.examples import (
    ClassificationExamples,
    check_windows,
    tokenize_texts,
)
from keras_attn.tasks.classification.labels import LabelSet, balanced_weights, encode_labels
from keras_attn.tasks.classification.metrics import choosable_metrics, metric_names, task_metrics
from keras_attn.tasks.classification.probabilities import mean_by_text, probabilities
from keras_attn.tasks.classification.report import write_report
from keras_attn.tasks.classification.report_numbers import details
from keras_attn.tasks.finetuning_choices import (
    ROW_COUNTS,
    build_model,
    check_training,
    choose_best,
    choose_buckets,
    choose_rows,
)
from keras_attn.tasks.finetuning_defaults import FinetuningDefaults
from keras_attn.tasks.tokenizer_choice import choose_tokenizer


def finetune_classifier(config, workdir, pretrained, dry_run, *, strategy, virtual_devices, tpu,
                        compared=False):
    """Finetunes a model that classifies texts or tells a number of them.

    Args:
        config, workdir, pretrained, dry_run, strategy, virtual_devices, tpu: See `finetune`.
        compared: Whether the run is one of several.

    Returns:
        Dict, as `finetune`.
    """
    family = family_of(workdir or config.workdir, pretrained or config.pretrained)
    run = Run(family.kind, config, {"workdir": workdir, "pretrained": pretrained},
              {}, dry_run, strategy, virtual_devices, tpu)
    with run.locked():
        config, task, defaults = run.config, _task(run.config.data), FinetuningDefaults(run)
        defaults.choose_pooling(family)
        architecture = choose_architecture(run, family)
        new = run.match_heads(["pooler"] if config.model.pooling in family.poolers else [])
        check_training(run, architecture["num_layers"], task.kind)
        tables, targets = _read_splits(run, task)
        best = choose_best(config.eval, targets.metrics, tables["validation"], compared,
                           choosable_metrics(task.kind, len(targets.names), task.metrics))
        tokenizer = choose_tokenizer(
            run, family, lambda: tables["train"].texts + (tables["train"].text_pairs or []))
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        paired = tables["train"].text_pairs is not None
        tokens = tokenize_texts(tables["train"].texts, tables["train"].text_pairs, tokenizer)
        defaults.choose_length(tokens.row_lengths, architecture.get("max_length"), paired)
        if config.data.windows is not None:
            check_windows(config.data.windows, config.data.length, tables["train"].text_pairs)
        run.fit_memory(architecture)
        train = _examples(run, tables["train"], targets.encoded["train"], tokenizer, tokens)
        validation = tables["validation"] and _examples(
            run, tables["validation"], targets.encoded["validation"], tokenizer)
        defaults.choose_training(train.num_examples, architecture["hidden_dim"])
        defaults.report()
        tell_rows(run, tables, targets, train, validation)
        # First: `start` makes the folder that of a run, which predicts by its labels.
        _write_labels(run, targets, tables["train"])
        heads = {"num_classes": len(targets.names) or 1, "dropout": config.model.dropout,
                 "pooling": family.classifier.OWN if config.model.pooling == "cls" else "mean",
                 "multilabel": task.kind == "multilabel"}
        other = _other_classes(run, targets, heads)
        if other:  # that head would start with their meaning
            new = [*new, "logits_dense"]
        if task.kind == "regression":
            heads.update(_scale(run, targets.encoded["train"], other))
        run.start(architecture, heads, _hashes(run, family, tables))
        newest = {}

        def metrics(results, logits, _):
            shares = probabilities(logits[:validation.num_examples], task.kind)
            shares = mean_by_text(shares, validation.owners, validation.num_texts)
            newest["shares"] = shares
            return task_metrics(targets.encoded["validation"], shares, task.kind, targets.metrics,
                                heads.get("label_deviation", 1.0))

        def of_classes():
            return details(targets.names, targets.encoded["validation"], newest["shares"],
                           task.kind) if newest else {}

        results = run.train(
            lambda: build_model(run, family, family.classifier, architecture, **heads),
            lambda model: run.assign_pretrained(model, new),
            TableBatches(train, config.data.pack, config.train.accumulate,
                         counts=ROW_COUNTS if config.train.jit else None),
            validation and TableBatches(validation), "logits", metrics, best, of_classes,
        )
        if newest:  # not of a dry run, nor without validation rows
            found = targets.names, targets.encoded, newest["shares"], task.kind
            baselines = run.chief and compute_baselines(tables, *found)
            if baselines:
                results["to_beat"] = baselines.to_beat
                run.write_results(results)
            if config.eval.report:
                write_report(run, results, baselines, tables, *found)
            if baselines:
                defaults.report_baselines(baselines)
        return results


@dataclasses.dataclass(frozen=True)
class _Task:
    """Columns, kind and metrics of the data, from a GLUE name or the fields."""

    glue: object
    kind: str
    metrics: tuple | None


@dataclasses.dataclass(frozen=True)
class _Targets:
    """What is to be predicted: class names (none for regression) and encoded labels."""

    names: tuple
    metrics: tuple
    encoded: dict


def _task(data):
    if data.windows is not None:
        check_windows(data.windows, data.length, data.text_pair)
    known = glue.task_of(data.task)
    if known:
        return _Task(known, "regression" if known.regression else "single_label", known.metrics)
    if data.regression and data.task not in (None, "regression"):
        raise UserError("data.regression=True is for data.task=regression. "
                        f"Received: data.task={data.task}")
    kind = "regression" if data.regression else data.task or "single_label"
    if not data.label_separator or any(mark in data.label_separator for mark in '\t\r\n"'):
        raise UserError("data.label_separator must be something, without tabs, quotes and line "
                        f"breaks. Received: data.label_separator={data.label_separator!r}")
    return _Task(None, kind, None)


def _read(data, task, split):
    """Reads a split into memory; None without validation data."""
    if data[split] == "docstrings" or (data[split] is None and data.train == "docstrings"):
        texts, labels = labelled_docstrings(split)
        return Table(texts, None, labels, {}, np.arange(len(texts)), [(0, "docstrings")])
    source = data[split]
    columns = {"text": data.text, "text_pair": data.text_pair, "label": data.label}
    if task.glue:
        source = _glue_source(data, task, split)
        known = task.glue.columns(source) if source else {}
        columns = {name: value if value is not None else known.get(name)
                   for name, value in columns.items()}
    if not source:
        if split == "train":
            raise UserError("data.train must name the training data: a file, a glob, or "
                            "tfds:NAME. Received: data.train=None")
        return None
    for name, of in {"text": "texts", "label": "labels"}.items():
        if columns[name] is None and data.format != "label_text":
            raise UserError(f"data.{name} must name the column of the {of}. "
                            f"Received: data.{name}=None")
    if data.format == "label_text":
        columns = {"text": "text", "text_pair": None, "label": "label"}
    return read_table(
        source, **columns, format=data.format, header=data.header, encoding=data.encoding,
        on_bad_text=data.on_bad_text, split=split, unlabelled=task.kind == "multilabel",
        max_line=data.max_line,
    )


def _read_splits(run, task):
    """`Table`s of the splits, validation None if there is none, and the `_Targets` of both."""
    data = run.config.data
    tables = {"train": _drop_headers(run, _read(data, task, "train")),
              "validation": _read(data, task, "validation")}
    # Of all rows: a draw may miss a class.
    labels = _label_set(tables["train"], task, data)
    if task.kind == "single_label":
        warn_of_rare_labels(run, tables["train"].labels)

    def encoded(train):
        return encode_labels(train.labels, labels, task.kind, data.label_separator, train.where)

    tables = choose_rows(run, tables, "rows", encoded if labels else None)
    return tables, _targets(tables, task, labels, data.label_separator, run.config.eval.metric)


def _drop_headers(run, table):
    """Leaves out the lines of names of files whose columns are given by number."""
    data = run.config.data
    columns = (data.text, data.text_pair, data.label)
    by_number = all(column is None or str(column).isdigit() for column in columns)
    formats = {data.format or told_format(name) for _, name in table.files}
    if (data.header is not None or data.text is None or not by_number
            or not formats <= {"csv", "tsv", "quoted_tsv"}):
        return table
    found = table.find_headers(data.label_separator if data.task == "multilabel" else None)
    if found == "maybe":
        run.say(f"warning: {table.where(0)} may have the names of the columns: if so, set "
                "data.header=True")
    if found != "yes":
        return table
    run.set_field("data.header", True)
    run.say(f"warning: {table.where(0)} has the names of the columns: using data.header=True (set "
            "data.header=False to read it as a row)")
    return table.without_first_rows()


def _glue_source(data, task, split):
    """Where a GLUE task's split is: as given, in the folder of its files, or in TFDS."""
    given = data[split]
    if given is None and data.train and tf.io.gfile.isdir(data.train):
        given = data.train
    return task.glue.source(given, split) if given or not data.train else None


def _label_set(table, task, data):
    """The classes of the training data; None for regression."""
    if data.positive is not None and (task.glue or task.kind != "single_label"):
        raise UserError("data.positive is for single labels of one's own. Received: "
                        f"data.positive={data.positive}, data.task={data.task}")
    if task.kind == "regression":
        return None
    if task.kind == "multilabel":
        return LabelSet.from_lists(table.labels, data.label_separator, table.where)
    if task.glue:
        return task.glue.label_set()
    _check_classes(table, data)
    return LabelSet.from_labels(table.labels, data.positive)


def _check_classes(table, data):
    if len(set(table.labels)) == 1:
        raise UserError("Training rows of two classes at least are needed, or another column as "
                        f"data.label. Received: {len(table):,} of {table.labels[0]!r} alone, "
                        f"data.train={data.train}, data.label={data.label}")


def _targets(tables, task, labels, separator, chosen):
    encoded = {split: encode_labels(table.labels, labels, task.kind, separator, table.where)
               for split, table in tables.items() if table}
    metrics = metric_names(task.kind, len(labels or ()), task.metrics, chosen)
    return _Targets(labels.names if labels else (), metrics, encoded)


def _examples(run, table, labels, tokenizer, tokens=None):
    """`ClassificationExamples` of training rows, with their `tokens`, or of validation rows."""
    config, by_length, shuffle = run.config, run.config.data.by_length, tokens is not None
    return ClassificationExamples(
        table.texts, table.text_pairs, labels, tokenizer, length=config.data.length,
        batch_size=config.train.batch_size if shuffle else config.eval.batch_size,
        buckets=choose_buckets(run), seed=config.train.seed, shuffle=shuffle,
        by_length=config.data.pack == 1 if by_length is None else by_length,
        weights=balanced_weights(labels) if shuffle and config.train.class_weights else None,
        windows=config.data.windows, tokens=tokens,
    )


def _other_classes(run, targets, heads):
    """Whether the weights to start from, if any, are not of a classifier of the same classes."""
    if run.resumed or not run.pretrained:
        return True
    start = run.pretrained
    return (start.kind != "finetuning" or list(start.labels) != list(targets.names)
            or bool(start.heads.get("multilabel")) != heads["multilabel"])


def _scale(run, scores, new):
    """Mean and deviation of a regression's labels; those that its head, if not new, knows."""
    if run.resumed or not new:
        known = run.saved.get("heads", {}) if run.resumed else run.pretrained.heads
        return {"label_mean": known.get("label_mean", 0.0),
                "label_deviation": known.get("label_deviation", 1.0)}
    return {"label_mean": float(np.mean(scores)),
            "label_deviation": float(np.std(scores)) or 1.0}


def _write_labels(run, targets, table):
    if run.chief and not (run.resumed or run.dry_run):
        pairs = table.text_pairs is not None
        run.workdir.write_json("labels.json", {"names": list(targets.names), "pairs": pairs})


def _hashes(run, family, tables):
    """SHA-256 of the vocabulary, of files, and of each split's rows, wherever they come from."""
    hashes = {name: file_sha256(run.workdir / name) for name in family.tokenizers.files}
    for split, table in tables.items():
        if table:
            hashes.update({name: file_sha256(name) for _, name in table.files
                           if name != "docstrings" and not name.startswith("tfds:")})
            sha = hashlib.sha256()
            for column in (table.texts, table.text_pairs, table.labels):
                for value in column or ():
                    sha.update(value.encode("utf-8", "surrogatepass") + b"\0")
                sha.update(b"\1")
            hashes[f"{split} rows"] = sha.hexdigest()
    return hashes
