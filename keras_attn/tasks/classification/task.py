"""Classification of texts and text pairs, and regression."""

import numpy as np

from keras_attn.data.batches import TableBatches
from keras_attn.data.text_examples import (
    TextExamples,
    check_windows,
    mean_by_text,
    tokenize_texts,
)
from keras_attn.errors import UserError
from keras_attn.tasks.classification import other_libraries
from keras_attn.tasks.classification.baseline import (
    compute_baselines,
    report_baselines,
    report_ranking,
)
from keras_attn.tasks.classification.baseline_tables import baselines_of_runs
from keras_attn.tasks.classification.data_summary import summarize_data
from keras_attn.tasks.classification.evaluate import evaluate
from keras_attn.tasks.classification.labels import balanced_weights, read_label_file
from keras_attn.tasks.classification.metrics import choosable_metrics, group_metrics, task_metrics
from keras_attn.tasks.classification.prediction_files import predict_file, predict_texts
from keras_attn.tasks.classification.predictor import Predictor
from keras_attn.tasks.classification.probabilities import probabilities
from keras_attn.tasks.classification.report import write_report
from keras_attn.tasks.classification.report_numbers import (
    class_details,
    class_lines,
    mean_class_scores,
)
from keras_attn.tasks.classification.report_sections import link_to_errors, mean_scores_of_classes
from keras_attn.tasks.classification.splits import choose_labeled_task, hashes_of, read_splits
from keras_attn.tasks.classification.teacher import teacher_logits
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.choices import (
    ROW_COUNTS,
    check_training,
    choose_best,
    choose_buckets,
)
from keras_attn.tasks.finetuning.defaults import FinetuningDefaults
from keras_attn.tasks.finetuning.ranking import RETRIEVAL, mrr_of_random_order
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.teacher import WITHOUT_TEACHER, distillation, read_teacher, teacher_hash
from keras_attn.tasks.tokenizer_choice import choose_tokenizer


class Classification(Task):
    """Classification, multilabel classification and regression.

    The modules of this package implement each kind of labels: "single_label", "multilabel" or
    "regression".
    """

    name = "classification"
    command = "python -m finetune.predict"

    def plan(self, run):
        config, family = run.config, run.family
        labeled, defaults = choose_labeled_task(config.data), FinetuningDefaults(run)
        model = family.model_class(self.name)
        choose_pooling(run, defaults, model.OWN)
        pooling = model.OWN if config.model.pooling == "cls" else "mean"
        pooled = model.uses_pooler(pooling=pooling)
        architecture = family.choose_architecture(run, use_pooler=pooled)
        new = run.match_heads(family.head_names(self.name, {"pooling": pooling}))
        check_training(run, architecture.get("num_layers", 0))
        if config.train.class_weights and labeled.kind != "single_label":
            raise UserError(
                f"train.class_weights requires single labels. Received: data.task={labeled.kind}"
            )
        tables, targets = read_splits(run, labeled)
        best = choose_best(
            run,
            (*(RETRIEVAL if config.data.group is not None else ()), *targets.metrics),
            tables["validation"],
            choosable_metrics(labeled.kind, len(targets.names), labeled.metrics),
        )
        teacher = read_teacher(run)
        soft_targets = teacher and teacher_logits(
            run, Predictor(teacher), tables["train"], targets.names, labeled.kind
        )
        texts, text_pairs = tables["train"].texts, tables["train"].text_pairs
        if family.requires_pairs and text_pairs is None:
            raise UserError(
                f"{family.title} requires pairs of texts. Set data.text_pair to the column of the "
                f"second texts. Received: data.text_pair={config.data.text_pair}"
            )
        tokenizer = choose_tokenizer(run, lambda: texts + (text_pairs or []))
        architecture.update(family.tokenizer_arguments(tokenizer))
        tokens = tokenize_texts(texts, text_pairs, tokenizer)
        defaults.choose_length(
            tokens.row_lengths, architecture.get("max_length"), text_pairs is not None
        )
        if config.data.windows is not None:
            check_windows(config.data.windows, config.data.length, text_pairs)
        heads = {
            "num_classes": len(targets.names) or 1,
            "dropout": config.model.dropout,
            "pooling": pooling,
            "multilabel": labeled.kind == "multilabel",
        }
        if teacher:
            heads.update(distillation(config.train))
        run.fit_memory(architecture, heads)
        train = _examples(
            run, tables["train"], targets.encoded["train"], tokenizer, tokens, soft_targets
        )
        validation = tables["validation"] and _examples(
            run, tables["validation"], targets.encoded["validation"], tokenizer
        )
        advice = defaults.choose_training(train.num_examples, run.family.output_dim(architecture))
        defaults.report()
        summarize_data(run, tables, targets, train, validation)
        # Before `run.start`, after which the workdir can be loaded for prediction.
        _write_labels(run, targets, tables["train"])
        other = _has_other_classes(run, targets, heads)
        if other:  # the weights of the pretrained head belong to other classes
            new = sorted({*new, *model.head_names(**heads)})
        if labeled.kind == "regression":
            heads.update(_label_scale(run, targets.encoded["train"], other))
        evaluation = _Evaluation(run, tables, targets, labeled.kind, validation, heads, advice)
        return Plan(
            architecture,
            heads,
            hashes_of(run, tables) | teacher_hash(teacher),
            TableBatches(
                train,
                config.data.pack,
                config.train.accumulate * run.engine.replicas_per_request,
                counts=ROW_COUNTS if config.train.jit else None,
            ),
            validation and TableBatches(validation),
            new,
            outputs="logits",
            metrics=evaluation.metrics,
            best=best,
            notes=evaluation.notes,
            finish=evaluation.finish,
        )

    def complete_heads(self, heads, config, files):
        known = {
            "num_classes": len(files["labels"]) or 1,
            "dropout": config["model"]["dropout"],
            "pooling": config["model"].get("pooling") or "cls",
            "multilabel": False,
            "label_mean": 0.0,
            "label_deviation": 1.0,
            **WITHOUT_TEACHER,
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
        if "keep_columns" in options:
            raise UserError(f"--keep_columns requires --input. Received: {options['keep_columns']}")
        predict_texts(model, texts, text_pairs, file, output)

    def predict_file(self, model, source, file, output, batch_size, reading, options):
        keep = tuple(filter(None, options.get("keep_columns", "").split(",")))
        predict_file(model, source, file, output, batch_size, reading, keep)

    def evaluate(self, model, data, batch_size, reading, options):
        given = {name: options.get(name) for name in ("label", "group")}
        return evaluate(model, data, batch_size, {**reading, **given})

    def exported(self, model, options):
        from keras_attn.tasks.classification.export import Exported

        return Exported(model, **options)

    def combine(self, results):
        # The baselines are the same for all seeds, which have the same rows.
        first = results[0]
        baselines = {"to_beat": first["to_beat"]} if "to_beat" in first else {}
        return {**baselines, **mean_class_scores(results)}

    def describe(self, results):
        return class_lines(results)

    def sections(self, results, best):
        return [
            baselines_of_runs(results),
            mean_scores_of_classes(results),
            link_to_errors(results, best),
        ]

    def head_layers(self, heads):
        return {"logits_dense": ("classifier", heads["num_classes"])}

    def read_head(self, config, path, dropout=None):
        return other_libraries.read_classifier(config, path, dropout)

    def write_head(self, trained, dropout=None):
        return other_libraries.write_classifier(trained, dropout)

    def for_other_libraries(self, trained):
        return other_libraries.rescale_regression(trained)


class _Evaluation:
    """Metrics, class details and report of the validation split; the functions of a `Plan`."""

    def __init__(self, run, tables, targets, kind, examples, heads, advice):
        self._run, self._tables, self._targets, self._kind = run, tables, targets, kind
        self._examples, self._advice = examples, advice
        self._deviation = heads.get("label_deviation", 1.0)
        self._predicted = None  # of the newest evaluation

    def metrics(self, model, results, logits, stop):
        examples, targets = self._examples, self._targets
        predicted = probabilities(logits[: examples.num_examples], self._kind)
        self._predicted = mean_by_text(predicted, examples.owners, examples.num_texts)
        labels, groups = targets.encoded["validation"], self._tables["validation"].groups
        return {
            **({} if groups is None else group_metrics(groups, labels, self._predicted)),
            **task_metrics(labels, self._predicted, self._kind, targets.metrics, self._deviation),
        }

    def notes(self):
        if self._predicted is None:
            return {}
        labels = self._targets.encoded["validation"]
        return class_details(self._targets.names, labels, self._predicted, self._kind)

    def finish(self, results):
        if self._predicted is None:
            return
        run, tables = self._run, self._tables
        found = self._targets.names, self._targets.encoded, self._predicted, self._kind
        baselines = run.chief and compute_baselines(tables, *found)
        if baselines:
            results["to_beat"] = baselines.scores
            run.write_results(results)
        if run.config.eval.report:
            write_report(run, results, baselines, tables, *found)
        groups = tables["validation"].groups
        if baselines and groups is not None:
            relevant = self._targets.encoded["validation"] == 1
            report_ranking(run, results["mrr"], mrr_of_random_order(groups, relevant), self._advice)
        elif baselines:
            report_baselines(run, baselines, self._advice)


def choose_pooling(run, defaults, own):
    """Sets `model.pooling` if it is unset.

    Args:
        run: `Run`.
        defaults: Its `FinetuningDefaults`.
        own: Value of the classifier's argument `pooling` for the pooled output of the backbone.
    """
    if run.config.model.pooling is not None:
        return
    pretrained, family = None if run.resumed else run.pretrained, run.family
    if pretrained and pretrained.task == run.task.name:
        pooling = "cls" if pretrained.heads.get("pooling", own) == own else "mean"
        defaults.choose("model.pooling", pooling, "as the pretrained classifier")
    elif pretrained and pretrained.released:
        defaults.choose("model.pooling", family.released_pooling, "a released model")
    else:
        defaults.choose("model.pooling", family.pooling, "no released weights")


def _examples(run, table, labels, tokenizer, tokens=None, soft_targets=None):
    """Returns the `TextExamples` of the training split if `tokens` are given, or of validation."""
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
        row_fields=None if soft_targets is None else {"teacher_logits": soft_targets},
    )


def _has_other_classes(run, targets, heads):
    """Whether there is no pretrained classifier of the same classes."""
    if run.resumed or not run.pretrained:
        return True
    start = run.pretrained
    return (
        start.task != "classification"
        or list(start.files["labels"]) != list(targets.names)
        or bool(start.heads.get("multilabel")) != heads["multilabel"]
    )


def _label_scale(run, scores, new):
    """Mean and standard deviation of the labels of a regression, or those of its trained head."""
    if run.resumed or not new:
        known = run.saved.get("heads", {}) if run.resumed else run.pretrained.heads
        return {
            "label_mean": known.get("label_mean", 0.0),
            "label_deviation": known.get("label_deviation", 1.0),
        }
    deviation = float(np.std(scores))
    if not deviation:  # in float32 the squares of small numbers are 0
        deviation = float(np.std(scores.astype(np.float64))) or 1.0
    return {"label_mean": float(np.mean(scores)), "label_deviation": deviation}


def _write_labels(run, targets, table):
    if run.chief and not (run.resumed or run.dry_run):
        pairs = table.text_pairs is not None
        run.workdir.write_json("labels.json", {"names": list(targets.names), "pairs": pairs})


TASK = Classification()
