"""Tagging: token classification of words, with an optional conditional random field."""

import dataclasses

from keras_attn.checkpoints.huggingface_config import id2label, read_id2label
from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError
from keras_attn.models.token_classifier import TokenClassifier
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.baseline_line import report_baseline
from keras_attn.tasks.finetuning.choices import (
    check_training,
    choose_best,
    choose_buckets,
    describe_lengths,
    reject_fields,
    warn_of_few_rows,
)
from keras_attn.tasks.finetuning.defaults import FinetuningDefaults
from keras_attn.tasks.labels import read_labels
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.tagging.evaluate import evaluate
from keras_attn.tasks.tagging.examples import cut_windows, sentence_examples, tokenize_words
from keras_attn.tasks.tagging.metrics import mean_scores, metric_names, scores_by_type, tag_metrics
from keras_attn.tasks.tagging.prediction_files import predict_file, predict_texts
from keras_attn.tasks.tagging.report import (
    BASELINE,
    score_lines,
    tag_baseline,
    write_report,
)
from keras_attn.tasks.tagging.schemes import IOB2, RAW, allowed_transitions, detect_scheme
from keras_attn.tasks.tagging.sentences import encode_tags
from keras_attn.tasks.tagging.splits import hashes_of, read_splits
from keras_attn.tasks.tagging.tagger import Tagger, tags_of_windows
from keras_attn.tasks.tagging.teacher import teacher_logits
from keras_attn.tasks.teacher import WITHOUT_TEACHER, distillation, read_teacher, teacher_hash
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

OVERLAP = 32  # default of data.windows in tokens


class Tagging(Task):
    """Prediction of a tag for each word."""

    name = "tagging"
    model = TokenClassifier
    command = "python -m finetune.predict"

    def plan(self, run):
        config, family = run.config, run.family
        _check(run)
        architecture = family.choose_architecture(run)
        new = run.match_heads(family.head_names(self.name, {"crf": config.model.crf}))
        check_training(run, architecture.get("num_layers", 0))
        splits, scheme, names = read_splits(run)
        names, other = _order_of_head(run, names)
        best = choose_best(run, metric_names(scheme), splits["validation"])
        teacher = read_teacher(run)
        soft_targets = teacher and teacher_logits(
            run, Tagger(teacher), splits["train"], names, scheme
        )
        tokenizer = choose_tokenizer(run, lambda: splits["train"].texts)
        architecture.update(family.tokenizer_arguments(tokenizer))
        tokens = {
            split: own and tokenize_words(own.words, tokenizer) for split, own in splits.items()
        }
        defaults = FinetuningDefaults(run)
        if config.data.windows is None:
            run.set_field("data.windows", OVERLAP)
        specials = tokenizer.row_layout.count(False)
        defaults.choose_length(
            tokens["train"].lengths + specials, architecture.get("max_length"), paired=False
        )
        heads = _heads(config, names, scheme)
        run.fit_memory(architecture, heads)
        windows = {
            split: own and cut_windows(own, config.data.length - specials, config.data.windows)
            for split, own in tokens.items()
        }
        _summarize_data(run, splits, tokens["train"], windows["train"], names)
        advice = defaults.choose_training(len(windows["train"]), family.output_dim(architecture))
        defaults.report()
        # Before `run.start`, after which the workdir can be loaded for prediction.
        if run.chief and not (run.resumed or run.dry_run):
            run.workdir.write_json("labels.json", {"names": list(names), "scheme": scheme})
        if other:  # the weights of the pretrained head are of other tags
            new = sorted({*new, *self.model.head_names(**heads)})

        def batches(split):
            own = splits[split], tokens[split], windows[split]
            targets = soft_targets if split == "train" else None
            return splits[split] and TableBatches(
                _examples(run, split, *own, names, tokenizer, targets)
            )

        evaluation = _Evaluation(run, splits, names, scheme, windows, tokens, tokenizer, advice)
        return Plan(
            architecture,
            heads,
            hashes_of(run, splits) | teacher_hash(teacher),
            batches("train"),
            batches("validation"),
            new,
            outputs="tags",
            metrics=evaluation.metrics,
            best=best,
            notes=evaluation.notes,
            finish=evaluation.finish,
            rates={"crf_layer": config.train.crf_learning_rate} if config.model.crf else {},
        )

    def complete_heads(self, heads, config, files):
        known = {
            "num_classes": len(files["labels"]),
            "dropout": config["model"]["dropout"],
            "word_vector": "first",
            "crf": False,
            "allowed_transitions": None,
            **WITHOUT_TEACHER,
        }
        return with_defaults(heads, known)

    def read_files(self, workdir, heads):
        found = read_labels(workdir, heads.get("num_classes"), fields=("scheme",))
        if found["scheme"] not in (IOB2, RAW):
            raise UserError(
                f"scheme must be {IOB2} or {RAW}. Received: {found['scheme']!r} in "
                f"{workdir / 'labels.json'}"
            )
        return {"labels": found["names"], "scheme": found["scheme"]}

    def write_files(self, workdir, trained):
        names, scheme = trained.files["labels"], trained.files["scheme"]
        workdir.write_json("labels.json", {"names": names, "scheme": scheme})

    def complete_config(self, config, trained):
        scheme = RAW if trained.files["scheme"] == RAW else None  # of files: detected
        config["data"].update(task=self.name, windows=OVERLAP, scheme=scheme)

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Tagger(trained)

    def predict_texts(self, model, texts, text_pairs, file, output, options):
        if text_pairs:
            raise UserError(
                f"Tagging does not support pairs of texts. Received: text_pair={text_pairs[0]!r}"
            )
        predict_texts(model, texts, file, output)

    def predict_file(self, model, source, file, output, batch_size, reading, options):
        predict_file(model, source, file, output, batch_size, reading)

    def evaluate(self, model, data, batch_size, reading, options):
        reading = {**reading, "label": options.get("label")}
        return evaluate(model, data, batch_size, reading, options.get("scheme"))

    def exported(self, model, options):
        from keras_attn.tasks.tagging.export import Exported

        return Exported(model)

    def combine(self, results):
        # The baseline is the same for all seeds, which have the same sentences.
        first = results[0]
        baseline = {"to_beat": first["to_beat"]} if "to_beat" in first else {}
        return {**baseline, "types": mean_scores([found.get("types", {}) for found in results])}

    def describe(self, results):
        return score_lines(results)

    def head_layers(self, heads):
        if heads.get("crf"):
            return None
        return {"logits_dense": ("classifier", heads["num_classes"])}

    def read_head(self, config, path, dropout=None):
        labels = read_id2label(config, path)
        heads = {"num_classes": len(labels), "dropout": config[dropout] if dropout else 0.0}
        found = detect_scheme([[label] for label in labels])
        return heads, {"labels": labels, "scheme": RAW if found == RAW else IOB2}

    def write_head(self, trained, dropout=None):
        labels = trained.files["labels"]
        return {
            **({dropout: trained.heads["dropout"]} if dropout else {}),
            "id2label": id2label(labels),
            "label2id": {label: number for number, label in enumerate(labels)},
        }

    def for_other_libraries(self, trained):
        if trained.heads.get("crf") or trained.heads.get("word_vector", "first") != "first":
            raise UserError(
                "Other libraries predict the tag of a word from its first token, without a "
                "conditional random field. Models with model.crf=True or model.word_vector=mean "
                f"cannot be converted. Received: {trained.path}"
            )
        heads = {name: trained.heads[name] for name in ("num_classes", "dropout")}
        return dataclasses.replace(trained, heads=heads)


class _Evaluation:
    """Metrics, scores by type and report of the validation split; the functions of a `Plan`."""

    def __init__(self, run, splits, names, scheme, windows, tokens, tokenizer, advice):
        self._run, self._splits, self._names, self._scheme = run, splits, names, scheme
        self._windows, self._tokens = windows["validation"], tokens["validation"]
        self._tokenizer, self._advice = tokenizer, advice
        self._predicted = None  # tags of each sentence, of the newest evaluation

    @property
    def _actual(self):
        return [row.tags for row in self._splits["validation"].rows]

    def metrics(self, model, results, rows, stop):
        self._predicted = tags_of_windows(
            rows, self._windows, self._tokens, self._tokenizer, self._names, self._scheme
        )
        found = tag_metrics(self._actual, self._predicted, self._scheme)
        return {**found, "loss": results["loss"]}

    def notes(self):
        if self._predicted is None:
            return {}
        return {"types": scores_by_type(self._actual, self._predicted, self._scheme)}

    def finish(self, results):
        if self._predicted is None:
            return
        run = self._run
        baseline = run.chief and tag_baseline(self._splits, self._scheme)
        if baseline:
            results["to_beat"] = baseline
            run.write_results(results)
        if run.config.eval.report:
            write_report(run, results, baseline, self._splits, self._predicted, self._scheme)
        if baseline:
            report_baseline(run, results, BASELINE, baseline, self._advice)


def _check(run):
    config, data = run.config, run.config.data
    columns = ("data.text_pair", "data.header", "data.positive", "data.group")
    reject_fields(config, "tagging", columns)
    if data.regression or data.pack > 1 or config.train.class_weights:
        raise UserError(
            "data.task=tagging requires data.regression=False, data.pack=1 and "
            f"train.class_weights=False. Received: data.regression={data.regression}, "
            f"data.pack={data.pack}, train.class_weights={config.train.class_weights}"
        )
    if run.family.requires_pairs:
        raise UserError(
            f"{run.family.title} requires pairs of texts, which tagging does not have. "
            f"Received: model.family={run.family.name}"
        )


def _summarize_data(run, splits, tokens, windows, names):
    """Prints a summary of the data before training."""
    for split, own in splits.items():
        if own is None:
            run.say("no validation sentences: the results will have no metrics")
            continue
        kind = "training" if split == "train" else split
        skipped = f", {own.skipped:,} skipped" if own.skipped else ""
        run.say(
            f"{counted(len(own), f'{kind} sentence')}, {counted(own.num_words, 'word')}{skipped}"
        )
    run.say(f"{counted(len(names), 'tag')} ({run.config.data.scheme})")
    split_sentences = len(windows) - len(splits["train"])
    run.say(
        describe_lengths(tokens.lengths, "sentence")
        + (f" · {counted(len(windows), 'window')}" if split_sentences else "")
    )
    warn_of_few_rows(run, len(windows), "sentences")


def _examples(run, split, sentences, tokens, windows, names, tokenizer, soft_targets):
    config, train = run.config, split == "train"
    labels = encode_tags(sentences, names)
    return sentence_examples(
        tokens,
        labels,
        tokenizer,
        length=config.data.length,
        windows=windows,
        word_fields=None if soft_targets is None else {"teacher_logits": soft_targets},
        batch_size=config.train.batch_size if train else config.eval.batch_size,
        buckets=choose_buckets(run),
        seed=config.train.seed,
        shuffle=train,
        by_length=config.data.by_length is not False,
    )


def _heads(config, names, scheme):
    """Returns the arguments of the head."""
    model = config.model
    restricted = model.crf and scheme != RAW
    return {
        "num_classes": len(names),
        "dropout": model.dropout,
        "word_vector": model.word_vector,
        "crf": model.crf,
        "allowed_transitions": allowed_transitions(names) if restricted else None,
        **(distillation(config.train) if config.train.teacher else {}),
    }


def _order_of_head(run, names):
    """Returns the tags in the order of the head, and whether the pretrained head has other tags."""
    if run.resumed or not run.pretrained or run.pretrained.task != "tagging":
        return names, True
    start = tuple(run.pretrained.files["labels"])
    return (start, False) if set(start) == set(names) else (names, True)


TASK = Tagging()
