"""Embeddings of texts: pooling, dense layers and normalization, and their training."""

import dataclasses
import itertools

import numpy as np

from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError, warn
from keras_attn.models.text_embedder import DEFAULT_LOSS, OVER_BATCH, TextEmbedder
from keras_attn.registry import FAMILIES
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.embedder import Embedder
from keras_attn.tasks.embedding.groups import (
    GroupExamples,
    TextReader,
    check_columns,
    check_groups,
    choose_loss,
    hashes_of,
    read_groups,
    row_lengths,
)
from keras_attn.tasks.embedding.metrics import embedding_metrics, loss_of_batches, metric_names
from keras_attn.tasks.embedding.report import BASELINE, text_baseline, write_report
from keras_attn.tasks.embedding.teacher import teacher_embeddings
from keras_attn.tasks.finetuning.baseline_line import report_baseline
from keras_attn.tasks.finetuning.choices import (
    check_training,
    choose_best,
    choose_buckets,
    choose_rows,
    describe_lengths,
    reject_fields,
    warn_of_few_rows,
)
from keras_attn.tasks.finetuning.defaults import FinetuningDefaults
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.teacher import WITHOUT_TEACHER, distillation, read_teacher, teacher_hash
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

_FILE = "embedding.json"
_COLUMNS = ("text", "text_pair", "negative", "label")


class Embedding(Task):
    """Embeddings of texts, as of sentence-transformers."""

    name = "embedding"
    model = TextEmbedder
    command = "python -m finetune.embed"

    def plan(self, run):
        config, data, family = run.config, run.config.data, run.family
        columns = {name: data[name] for name in _COLUMNS}
        _check(run)
        check_columns(columns, config.train.loss)
        if config.train.loss is None:
            run.set_field("train.loss", choose_loss(columns))
        heads, settings = _choose_head(run)
        architecture = family.choose_architecture(run)
        new = run.match_heads(family.head_names(self.name, heads), reset=_changed_head(run, heads))
        check_training(run, architecture.get("num_layers", 0))
        splits = _read_splits(run, columns)
        check_groups(config, splits["train"])
        best = choose_best(run, metric_names(columns), splits["validation"])
        teacher = read_teacher(run)
        fields = teacher and teacher_embeddings(run, Embedder(teacher), splits["train"])
        tokenizer = choose_tokenizer(run, lambda: [*itertools.chain(*splits["train"].columns)])
        architecture.update(family.tokenizer_arguments(tokenizer))
        if not tokenizer.row_layout.before:  # the vector of the text is that of the last token
            heads["pooling"] = [
                "lasttoken" if pooling == "cls" else pooling for pooling in heads["pooling"]
            ]
        read = TextReader(settings, tokenizer)
        lengths = row_lengths(splits["train"], read)
        defaults = FinetuningDefaults(run)
        known = (settings.max_length, architecture.get("max_length"))
        # Texts of a group, which have no windows.
        defaults.choose_length(lengths, min(filter(None, known), default=None), paired=True)
        if settings.max_length and data.length > settings.max_length:
            settings = dataclasses.replace(settings, max_length=data.length)
        run.fit_memory(architecture, heads)
        examples = {
            split: own and _examples(run, split, own, read, fields) for split, own in splits.items()
        }
        _summarize_data(run, splits, lengths, columns)
        advice = defaults.choose_training(
            examples["train"].num_examples, family.output_dim(architecture)
        )
        defaults.report()
        # Before `run.start`, after which the workdir can be loaded.
        if run.chief and not (run.resumed or run.dry_run):
            run.workdir.write_json(_FILE, settings.to_json())
        evaluation = _Evaluation(run, splits, heads, advice)
        return Plan(
            architecture,
            heads,
            hashes_of(run, splits) | teacher_hash(teacher),
            TableBatches(examples["train"]),
            examples["validation"] and TableBatches(examples["validation"]),
            new,
            outputs="embedding",
            metrics=evaluation.metrics,
            best=best,
            finish=evaluation.finish,
        )

    def sequences(self, data):
        return 3 if data.get("negative") else 2

    def complete_heads(self, heads, config, files):
        known = {"pooling": ["mean"], "steps": [], **DEFAULT_LOSS, **WITHOUT_TEACHER}
        return with_defaults(heads, known)

    def read_files(self, workdir, heads):
        found = workdir.read_json(_FILE)
        if found is None:
            raise UserError(f"{workdir.path} lacks {_FILE}. Restore the file")
        return {"text": TextSettings.from_json(found, workdir / _FILE)}

    def write_files(self, workdir, trained):
        workdir.write_json(_FILE, _settings(trained).to_json())

    def complete_config(self, config, trained):
        config["data"]["length"] = _settings(trained).max_length or config["data"]["length"]

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Embedder(trained)

    def evaluate(self, model, data, batch_size, reading, options):
        trained = model.config["data"]
        given = {**reading, "label": options.get("label")}
        columns: dict = dict.fromkeys(_COLUMNS)  # negatives are not evaluated
        for name in ("text", "text_pair", "label"):
            columns[name] = trained.get(name) if given[name] is None else given[name]
        if columns["text"] is None or columns["text_pair"] is None:
            raise UserError(
                "Evaluation requires pairs of texts: --text_column and --text_pair_column. "
                f"Received: text={columns['text']}, text_pair={columns['text_pair']}"
            )
        names = ("format", "encoding", "on_bad_text", "max_line")
        options = {
            name: trained.get(name) if given[name] is None else given[name] for name in names
        }
        groups = read_groups(data, columns, **options)
        vectors = [model.embed(column, batch_size=batch_size) for column in groups.columns[:2]]
        return {
            **embedding_metrics(np.stack(vectors, axis=1), groups),
            "examples": len(groups),
            "skipped": groups.skipped,
        }

    def exported(self, model, options):
        from keras_attn.tasks.embedding.export import Exported

        return Exported(model)

    def head_layers(self, heads):
        # Dense layers follow the pooling, so they are not on the hidden states.
        return None if any("units" in step for step in heads.get("steps", ())) else {}

    def describe_head(self, trained):
        heads, settings = trained.heads, _settings(trained)
        length = []
        if settings.max_length not in (None, trained.architecture.get("max_length")):
            length = [f"max_length={settings.max_length}"]
        steps = [
            f"dense {step['units']} ({step['activation']})" if "units" in step else step["type"]
            for step in heads["steps"]
        ]
        names = [name for name, text in settings.prompts.items() if text]
        prompts = [f"prompts {', '.join(names)}"] if names else []
        return ", ".join([f"pooling={'+'.join(heads['pooling'])}", *steps, *length, *prompts])

    def for_other_libraries(self, trained):
        known = "sentence_transformers" in FAMILIES.fields(trained.family.name).formats
        advice = "; --format=sentence_transformers writes all of it" if known else ""
        warn(f"warning: only the encoder is written, without {self.describe_head(trained)}{advice}")
        return dataclasses.replace(
            trained, task="backbone", heads={}, weights=trained.backbone_weights, files={}
        )


class _Evaluation:
    """Metrics and report of the validation split; the functions of a `Plan`."""

    def __init__(self, run, splits, heads, advice):
        self._run, self._splits, self._heads, self._advice = run, splits, heads, advice
        self._vectors = None  # of the newest evaluation

    def metrics(self, model, results, rows, stop):
        groups, heads = self._splits["validation"], self._heads
        self._vectors = rows[: len(groups)]
        found = {"loss": results["loss"]}
        if heads["loss"] in OVER_BATCH:  # the devices evaluate parts of a batch
            size = self._run.config.train.batch_size
            found["loss"] = loss_of_batches(self._vectors, groups.scores, heads, size)
        if len(groups.columns) == 1:
            return found
        return {**embedding_metrics(self._vectors, groups), **found}

    def finish(self, results):
        groups = self._splits["validation"]
        if self._vectors is None or len(groups.columns) == 1:
            return
        run = self._run
        baseline = run.chief and text_baseline(self._splits["train"], groups)
        if baseline:
            results["to_beat"] = baseline
            run.write_results(results)
        if run.config.eval.report:
            write_report(run, results, baseline, self._splits, self._vectors)
        if baseline:
            report_baseline(run, results, BASELINE, baseline, self._advice)


def _check(run):
    config, data = run.config, run.config.data
    reject_fields(config, "embedding", ("data.group",))
    if data.regression or data.pack > 1 or config.train.class_weights or data.windows is not None:
        raise UserError(
            "data.task=embedding requires data.regression=False, data.pack=1, data.windows=None "
            f"and train.class_weights=False. Received: data.regression={data.regression}, "
            f"data.pack={data.pack}, data.windows={data.windows}, "
            f"train.class_weights={config.train.class_weights}"
        )
    if run.family.requires_pairs:
        raise UserError(
            f"{run.family.title} has no embeddings of single texts. "
            f"Received: model.family={run.family.name}"
        )


def _choose_head(run):
    """Returns the arguments of the head, and the `TextSettings`."""
    config, start = run.config, None if run.resumed else run.pretrained
    names = ("loss", "temperature", "symmetric", "margin")
    losses = {name: config.train[name] for name in names}
    losses |= distillation(config.train) if config.train.teacher else {}
    if run.resumed:
        settings = run.task.read_files(run.workdir, {})["text"]
        return {**run.saved["heads"], **losses}, settings
    known = start.heads if start and start.task == "embedding" else {}
    settings = start.files["text"] if known else TextSettings()
    if known and config.model.pooling is None and config.model.projection is None:
        return {"pooling": known["pooling"], "steps": known["steps"], **losses}, settings
    if config.model.pooling is None:
        pooling = known.get("pooling", ["mean"])
    else:
        pooling = [config.model.pooling]
    if known:
        run.say(f"not used of pretrained: {run.task.describe_head(start)}")
    size, steps = config.model.projection, [{"type": "normalize"}]
    if size is not None:
        dense = {"type": "dense", "units": size, "activation": "linear", "use_bias": True}
        steps = [dense, *steps]
    return {"pooling": pooling, "steps": steps, **losses}, settings


def _changed_head(run, heads):
    """Returns the head if that of the pretrained model has other layers, in a list."""
    start = None if run.resumed else run.pretrained
    same = start and start.task == "embedding" and start.heads["steps"] == heads["steps"]
    return [] if same else ["embedding_head"]


def _read_splits(run, columns):
    data = run.config.data
    if not data.train:
        raise UserError(
            "data.train must be set to the training data: a file, a glob or tfds:NAME. "
            "Received: data.train=None"
        )
    names = ("format", "header", "encoding", "on_bad_text", "max_line")
    options = {name: data[name] for name in names}
    found = {
        split: read_groups(data[split], columns, split=split, **options) if data[split] else None
        for split in ("train", "validation")
    }
    return choose_rows(run, found, "rows")


def _summarize_data(run, splits, lengths, columns):
    """Prints a summary of the data before training."""
    kind = "text" if len(splits["train"].columns) == 1 else "pair"
    kind = "triplet" if columns["negative"] else kind
    for split, own in splits.items():
        if own is None:
            run.say("no validation rows: the results will have no metrics")
            continue
        name = "training" if split == "train" else split
        skipped = f", {own.skipped:,} skipped" if own.skipped else ""
        run.say(f"{counted(len(own), f'{name} {kind}')}{skipped}")
    run.say(describe_lengths(lengths, f"longest text of a {kind}" if kind != "text" else kind))
    warn_of_few_rows(run, len(splits["train"]), "rows")


def _examples(run, split, groups, read, text_fields):
    config, shuffle = run.config, split == "train"
    return GroupExamples(
        groups,
        read,
        text_fields if shuffle else None,
        length=config.data.length,
        batch_size=config.train.batch_size if shuffle else config.eval.batch_size,
        buckets=choose_buckets(run),
        seed=config.train.seed,
        shuffle=shuffle,
    )


def _settings(trained):
    return trained.files.get("text", TextSettings())


TASK = Embedding()
