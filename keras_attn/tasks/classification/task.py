"""Classification: labeled texts in, a model that classifies out."""

import dataclasses
import hashlib

import numpy as np
import tensorflow as tf

from keras_attn.data.batches import TableBatches
from keras_attn.data.sources.docstrings import labelled_docstrings
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.table_formats import format_from_name
from keras_attn.data.sources.tables import Table, read_table
from keras_attn.data.text_examples import (
    TextExamples,
    check_windows,
    mean_by_text,
    tokenize_texts,
)
from keras_attn.errors import UserError
from keras_attn.tasks.classification import glue, other_libraries
from keras_attn.tasks.classification.baseline import compute_baselines
from keras_attn.tasks.classification.data_summary import tell_rows, warn_of_rare_labels
from keras_attn.tasks.classification.evaluate import evaluate
from keras_attn.tasks.classification.export import Exported
from keras_attn.tasks.classification.labels import (
    LabelSet,
    balanced_weights,
    encode_labels,
    read_label_file,
)
from keras_attn.tasks.classification.metrics import choosable_metrics, metric_names, task_metrics
from keras_attn.tasks.classification.prediction_files import predict_file, predict_texts
from keras_attn.tasks.classification.predictor import Predictor
from keras_attn.tasks.classification.probabilities import probabilities
from keras_attn.tasks.classification.report import write_report
from keras_attn.tasks.classification.report_numbers import details, mean_scores, told_classes
from keras_attn.tasks.classification.report_sections import (
    mean_classes,
    runs_to_beat,
    surest_errors_of_best,
)
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.choices import (
    ROW_COUNTS,
    check_training,
    choose_best,
    choose_buckets,
    choose_rows,
)
from keras_attn.tasks.finetuning.defaults import FinetuningDefaults
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.tokenizer_choice import choose_tokenizer


class Classification(Task):
    """Classification, multilabel classification and regression.

    What differs between them is in the modules of this package, by the kind of labels:
    "single_label", "multilabel" or "regression".
    """

    name = "classification"
    command = "python -m finetune.predict"

    def plan(self, run):
        config, family = run.config, run.family
        labeled, defaults = _labeled_task(config.data), FinetuningDefaults(run)
        model = family.model_class(self.name)
        defaults.choose_pooling(model.OWN)
        pooled = config.model.pooling == "cls" and family.has_pooler
        architecture = family.choose_architecture(run, use_pooler=pooled)
        new = run.match_heads(["pooler"] if pooled else [])
        check_training(run, architecture.get("num_layers", 0))
        if config.train.class_weights and labeled.kind != "single_label":
            raise UserError(
                f"train.class_weights needs one class a row. Received: data.task={labeled.kind}"
            )
        tables, targets = _read_splits(run, labeled)
        best = choose_best(
            run,
            targets.metrics,
            tables["validation"],
            choosable_metrics(labeled.kind, len(targets.names), labeled.metrics),
        )
        tokenizer = choose_tokenizer(
            run, lambda: tables["train"].texts + (tables["train"].text_pairs or [])
        )
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        tokens = tokenize_texts(tables["train"].texts, tables["train"].text_pairs, tokenizer)
        defaults.choose_length(
            tokens.row_lengths,
            architecture.get("max_length"),
            tables["train"].text_pairs is not None,
        )
        if config.data.windows is not None:
            check_windows(config.data.windows, config.data.length, tables["train"].text_pairs)
        heads = {
            "num_classes": len(targets.names) or 1,
            "dropout": config.model.dropout,
            "pooling": model.OWN if config.model.pooling == "cls" else "mean",
            "multilabel": labeled.kind == "multilabel",
        }
        run.fit_memory(architecture, heads)
        train = _examples(run, tables["train"], targets.encoded["train"], tokenizer, tokens)
        validation = tables["validation"] and _examples(
            run, tables["validation"], targets.encoded["validation"], tokenizer
        )
        defaults.choose_training(train.num_examples, architecture["hidden_dim"])
        defaults.report()
        tell_rows(run, tables, targets, train, validation)
        # First: `start` makes the folder that of a run, which predicts by its labels.
        _write_labels(run, targets, tables["train"])
        other = _other_classes(run, targets, heads)
        if other:  # that head would start with their meaning
            new = [*new, "logits_dense"]
        if labeled.kind == "regression":
            heads.update(_scale(run, targets.encoded["train"], other))
        newest = {}

        def metrics(model, results, logits, stop):
            shares = probabilities(logits[: validation.num_examples], labeled.kind)
            shares = mean_by_text(shares, validation.owners, validation.num_texts)
            newest["shares"] = shares
            return task_metrics(
                targets.encoded["validation"],
                shares,
                labeled.kind,
                targets.metrics,
                heads.get("label_deviation", 1.0),
            )

        def notes():
            return (
                details(
                    targets.names, targets.encoded["validation"], newest["shares"], labeled.kind
                )
                if newest
                else {}
            )

        def finish(results):
            if newest:  # not without validation rows
                _report(run, results, defaults, tables, targets, newest["shares"], labeled.kind)

        return Plan(
            architecture,
            heads,
            _hashes(run, tables),
            TableBatches(
                train,
                config.data.pack,
                config.train.accumulate,
                counts=ROW_COUNTS if config.train.jit else None,
            ),
            validation and TableBatches(validation),
            new,
            outputs="logits",
            metrics=metrics,
            best=best,
            notes=notes,
            finish=finish,
        )

    def complete_heads(self, heads, config, files):
        known = {
            "num_classes": len(files["labels"]) or 1,
            "dropout": config["model"]["dropout"],
            "pooling": config["model"].get("pooling") or "cls",
            "multilabel": False,
            "label_mean": 0.0,
            "label_deviation": 1.0,
        }
        return with_defaults(heads, known)

    def read_files(self, workdir, heads):
        found = read_label_file(workdir, heads.get("num_classes"))
        return {"labels": found["names"], "pairs": found["pairs"]}

    def write_files(self, workdir, trained):
        labels, pairs = trained.files["labels"], trained.files.get("pairs")
        workdir.write_json("labels.json", {"names": labels, "pairs": pairs})

    def complete_config(self, config, trained):
        config["data"]["text"] = "text"

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Predictor(trained)

    def predict_texts(self, model, texts, text_pairs, file, output, options):
        predict_texts(model, texts, text_pairs, file, output)

    def predict_file(self, model, source, file, output, batch_size, reading, options):
        predict_file(model, source, file, output, batch_size, reading)

    def evaluate(self, model, data, batch_size, reading, options):
        return evaluate(model, data, batch_size, {**reading, "label": options.get("label")})

    def exported(self, model, options):
        return Exported(model, **options)

    def combine(self, results):
        return mean_scores(results)

    def describe(self, results):
        return told_classes(results)

    def sections(self, results, best):
        return [runs_to_beat(results), mean_classes(results), surest_errors_of_best(results, best)]

    def head_layers(self, heads):
        return {"logits_dense": ("classifier", heads["num_classes"])}

    def read_head(self, config, path, dropout=None):
        return other_libraries.read_classifier(config, path, dropout)

    def write_head(self, trained, dropout=None):
        return other_libraries.written_classifier(trained, dropout)

    def for_other_libraries(self, trained):
        return other_libraries.in_units_of_labels(trained)


def _report(run, results, defaults, tables, targets, shares, kind):
    """Baselines, report.html and a warning where the model is not better."""
    found = targets.names, targets.encoded, shares, kind
    baselines = run.chief and compute_baselines(tables, *found)
    if baselines:
        results["to_beat"] = baselines.to_beat
        run.write_results(results)
    if run.config.eval.report:
        write_report(run, results, baselines, tables, *found)
    if baselines:
        defaults.report_baselines(baselines)


@dataclasses.dataclass(frozen=True)
class _LabeledTask:
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


def _labeled_task(data):
    if data.windows is not None:
        check_windows(data.windows, data.length, data.text_pair)
    known = glue.task_of(data.task)
    if known:
        kind = "regression" if known.regression else "single_label"
        return _LabeledTask(known, kind, known.metrics)
    if data.regression and data.task not in (None, "regression"):
        raise UserError(
            f"data.regression=True is for data.task=regression. Received: data.task={data.task}"
        )
    kind = "regression" if data.regression else data.task or "single_label"
    if not data.label_separator or any(mark in data.label_separator for mark in '\t\r\n"'):
        raise UserError(
            "data.label_separator must be something, without tabs, quotes and line "
            f"breaks. Received: data.label_separator={data.label_separator!r}"
        )
    return _LabeledTask(None, kind, None)


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
        columns = {
            name: value if value is not None else known.get(name) for name, value in columns.items()
        }
    if not source:
        if split == "train":
            raise UserError(
                "data.train must name the training data: a file, a glob, or "
                "tfds:NAME. Received: data.train=None"
            )
        return None
    for name, of in {"text": "texts", "label": "labels"}.items():
        if columns[name] is None and data.format != "label_text":
            raise UserError(
                f"data.{name} must name the column of the {of}. Received: data.{name}=None"
            )
    if data.format == "label_text":
        columns = {"text": "text", "text_pair": None, "label": "label"}
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


def _read_splits(run, task):
    """`Table`s of the splits, validation None if there is none, and the `_Targets` of both."""
    data = run.config.data
    tables = {
        "train": _drop_headers(run, _read(data, task, "train")),
        "validation": _read(data, task, "validation"),
    }
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
            f"warning: {table.where(0)} may have the names of the columns: if so, set "
            "data.header=True"
        )
    if found != "yes":
        return table
    run.set_field("data.header", True)
    run.say(
        f"warning: {table.where(0)} has the names of the columns: using data.header=True (set "
        "data.header=False to read it as a row)"
    )
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
        raise UserError(
            "data.positive is for single labels of one's own. Received: "
            f"data.positive={data.positive}, data.task={data.task}"
        )
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
        raise UserError(
            "Training rows of two classes at least are needed, or another column as "
            f"data.label. Received: {len(table):,} of {table.labels[0]!r} alone, "
            f"data.train={data.train}, data.label={data.label}"
        )


def _targets(tables, task, labels, separator, chosen):
    encoded = {
        split: encode_labels(table.labels, labels, task.kind, separator, table.where)
        for split, table in tables.items()
        if table
    }
    metrics = metric_names(task.kind, len(labels or ()), task.metrics, chosen)
    return _Targets(labels.names if labels else (), metrics, encoded)


def _examples(run, table, labels, tokenizer, tokens=None):
    """`TextExamples` of training rows, with their `tokens`, or of validation rows."""
    config, by_length, shuffle = run.config, run.config.data.by_length, tokens is not None
    return TextExamples(
        table.texts,
        table.text_pairs,
        labels,
        tokenizer,
        length=config.data.length,
        batch_size=config.train.batch_size if shuffle else config.eval.batch_size,
        buckets=choose_buckets(run),
        seed=config.train.seed,
        shuffle=shuffle,
        by_length=config.data.pack == 1 if by_length is None else by_length,
        weights=balanced_weights(labels) if shuffle and config.train.class_weights else None,
        windows=config.data.windows,
        tokens=tokens,
    )


def _other_classes(run, targets, heads):
    """Whether the weights to start from, if any, are not of a classifier of the same classes."""
    if run.resumed or not run.pretrained:
        return True
    start = run.pretrained
    return (
        start.task != "classification"
        or list(start.files["labels"]) != list(targets.names)
        or bool(start.heads.get("multilabel")) != heads["multilabel"]
    )


def _scale(run, scores, new):
    """Mean and deviation of a regression's labels; those that its head, if not new, knows."""
    if run.resumed or not new:
        known = run.saved.get("heads", {}) if run.resumed else run.pretrained.heads
        return {
            "label_mean": known.get("label_mean", 0.0),
            "label_deviation": known.get("label_deviation", 1.0),
        }
    return {"label_mean": float(np.mean(scores)), "label_deviation": float(np.std(scores)) or 1.0}


def _write_labels(run, targets, table):
    if run.chief and not (run.resumed or run.dry_run):
        pairs = table.text_pairs is not None
        run.workdir.write_json("labels.json", {"names": list(targets.names), "pairs": pairs})


def _hashes(run, tables):
    """SHA-256 of the vocabulary, of files, and of each split's rows, wherever they come from."""
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
            sha = hashlib.sha256()
            for column in (table.texts, table.text_pairs, table.labels):
                for value in column or ():
                    sha.update(value.encode("utf-8", "surrogatepass") + b"\0")
                sha.update(b"\1")
            hashes[f"{split} rows"] = sha.hexdigest()
    return hashes


TASK = Classification()
