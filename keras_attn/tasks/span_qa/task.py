"""Extractive question answering on SQuAD files."""

import hashlib
import json
import math
from reprlib import repr as shorten

from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.data.sources.files import file_sha256
from keras_attn.errors import UserError
from keras_attn.shared_fields import DISTILLATION
from keras_attn.tasks.contract import Plan, Task
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
from keras_attn.tasks.model_arguments import require_float32
from keras_attn.tasks.span_qa.answer_files import (
    answer_file,
    answer_texts,
    as_number,
    evaluate_answers,
    metrics_of,
    reject_table_options,
)
from keras_attn.tasks.span_qa.answerer import Answerer
from keras_attn.tasks.span_qa.answers import find_answers
from keras_attn.tasks.span_qa.examples import (
    cut_windows,
    read_questions,
    window_examples,
)
from keras_attn.tasks.span_qa.fields import DEFAULT_LENGTH, METRICS, NAME
from keras_attn.tasks.span_qa.report import (
    reading_baselines,
    report_reading_baselines,
    write_reading_report,
)
from keras_attn.tasks.tokenizer_choice import choose_tokenizer
from keras_attn.training.checkpoints import Checkpoints

_TABLE_FIELDS = ("text", "text_pair", "label", "group", "format", "header", "windows", "max_line")


class SpanQA(Task):
    """Extractive question answering.

    The metrics are `reading_metrics` with the best threshold.
    """

    name = "span_qa"
    command = "python -m finetune.predict"

    def plan(self, run):
        config, data = run.config, run.config.data
        _check(config)
        architecture = run.family.choose_architecture(run)
        new = run.match_heads(run.family.head_names(self.name, {}))
        check_training(run, architecture.get("num_layers", 0))
        questions = _read_splits(run)
        best = choose_best(run, METRICS, questions["validation"])
        tokenizer = choose_tokenizer(
            run, lambda: [*dict.fromkeys(questions["train"].texts), *questions["train"].questions]
        )
        architecture.update(run.family.tokenizer_arguments(tokenizer))
        defaults = FinetuningDefaults(run)
        if data.length is None:
            defaults.choose(
                "data.length",
                min(architecture.get("max_length") or DEFAULT_LENGTH, DEFAULT_LENGTH),
                "the default for SQuAD",
            )
        run.fit_memory(architecture, heads={})
        windows = {
            split: own
            and cut_windows(
                own,
                tokenizer,
                length=data.length,
                max_question=data.max_question,
                stride=data.stride,
            )
            for split, own in questions.items()
        }
        _summarize_data(run, questions, windows)
        if not windows["train"].weights.any():
            raise UserError(
                "At least one training question must be impossible or have an answer at "
                "answer_start. "
                f"Received: data.train={data.train}"
            )
        defaults.choose_training(len(windows["train"]), run.family.output_dim(architecture))
        defaults.report()
        # The default of BERT; validation finds a better one.
        threshold = 0.0 if questions["train"].unanswerable else None
        # Before `run.start`, after which the workdir can be loaded for prediction.
        _write_threshold(run, threshold, new=True)
        newest = {}

        def metrics(model, results, logits, stop):
            own = windows["validation"]
            answers = find_answers(
                own, logits[: len(own)], questions["validation"].texts, data.max_answer
            )
            newest["answers"] = answers
            # A threshold can be estimated from unanswerable questions only.
            known = None if questions["validation"].unanswerable else as_number(threshold)
            return {**metrics_of(questions["validation"], answers, known), "loss": results["loss"]}

        def batches(split):
            return windows[split] and TableBatches(
                _examples(run, windows[split], tokenizer, shuffle=split == "train")
            )

        def finish(results):
            best_threshold = results.get("threshold", threshold)
            _write_threshold(run, best_threshold)
            if newest:  # not without validation questions
                baselines = run.chief and reading_baselines(questions["validation"])
                if config.eval.report:
                    write_reading_report(
                        run, results, baselines, questions, newest["answers"], best_threshold
                    )
                if baselines:
                    report_reading_baselines(run, results, baselines)

        return Plan(
            architecture,
            {},
            _hashes(run, questions),
            batches("train"),
            batches("validation"),
            new,
            outputs="span_logits",
            metrics=metrics,
            best=best,
            finish=finish,
        )

    def read_files(self, workdir, heads):
        return {"threshold": read_threshold(workdir)}

    def write_files(self, workdir, trained):
        workdir.write_json("reading.json", {"threshold": trained.files["threshold"]})

    def complete_config(self, config, trained):
        half = (trained.architecture.get("max_length") or DEFAULT_LENGTH) // 2
        data = config["data"]
        data.update(task=NAME, max_question=min(data["max_question"], max(1, half - 2)))

    def load(self, trained, precision):
        require_float32(trained, precision)
        return Answerer(trained)

    def predict_texts(self, model, texts, text_pairs, file, output, options):
        answer_texts(model, texts, text_pairs, file, output)

    def predict_file(self, model, source, file, output, batch_size, reading, options):
        answer_file(model, source, file, output, batch_size, reading)

    def evaluate(self, model, data, batch_size, reading, options):
        reject_table_options({**reading, "on_bad_text": None})
        return evaluate_answers(model, data, batch_size, reading["on_bad_text"])

    def head_layers(self, heads):
        return {"span_dense": ("qa_outputs", 2)}

    def read_head(self, config, path, dropout=None):
        # A field of our own, which other libraries ignore.
        threshold = config.get("no_answer_threshold")
        if threshold is not None and (
            isinstance(threshold, bool) or not isinstance(threshold, (int, float))
        ):
            raise UserError(
                f"no_answer_threshold must be a number. Received: {shorten(threshold)} in {path}"
            )
        return {}, {"threshold": threshold}

    def write_head(self, trained, dropout=None):
        threshold = trained.files["threshold"]
        return {} if threshold is None else {"no_answer_threshold": threshold}


def read_threshold(workdir):
    """Returns the threshold of the evaluation whose weights are kept, else of reading.json.

    None: the model always answers.

    Raises:
        UserError: If reading.json has no threshold.
    """
    content = workdir.read_json("reading.json")
    threshold = content.get("threshold", "") if content else ""
    number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if not (threshold is None or number and math.isfinite(threshold)):
        raise UserError(
            f"{workdir / 'reading.json'} must contain the threshold of a question answering "
            "model. Received: another file, or none"
        )
    state = Checkpoints(workdir / "checkpoints", log=lambda *_: None).read_state() or {}
    found = (state.get("best") or {}).get("found") or state.get("validation") or {}
    return found.get("threshold", threshold)


def _check(config):
    data = config.data
    reject_fields(config, NAME, [f"train.{name}" for name in DISTILLATION])
    for name in _TABLE_FIELDS:
        if data[name] is not None:
            raise UserError(
                f"data.{name} must be unset with data.task={NAME}, as it does not apply to SQuAD "
                f"files. Received: data.{name}={data[name]}"
            )
    if data.encoding != "utf-8":
        raise UserError(
            f"data.task={NAME} requires JSON files in UTF-8. Convert them. "
            f"Received: data.encoding={data.encoding}"
        )
    if data.regression or data.pack > 1:
        raise UserError(
            f"data.task={NAME} requires data.regression=False and data.pack=1. "
            f"Received: data.regression={data.regression}, data.pack={data.pack}"
        )
    if config.train.class_weights:
        raise UserError(f"train.class_weights requires single labels. Received: data.task={NAME}")
    if not data.train:
        raise UserError(
            "data.train must be set to the training data: a SQuAD file or a glob. "
            "Received: data.train=None"
        )


def _read_splits(run):
    """Returns the `Questions` of the splits; None if there is no validation split."""
    data = run.config.data
    found = {
        split: data[split] and read_questions(data[split], on_bad_text=data.on_bad_text)
        for split in ("train", "validation")
    }
    for split, own in found.items():
        if own and own.misplaced:
            answers = counted(
                own.misplaced,
                "answer is not at answer_start",
                "answers are not at answer_start",
            )
            run.say(f"{answers} in data.{split}")
    return choose_rows(run, found, "questions")


def _summarize_data(run, questions, windows):
    """Prints a summary of the data before training."""
    for split, own in questions.items():
        if own is None:
            run.say("no validation questions: the results will have no metrics")
            continue
        name, cut = "training" if split == "train" else split, windows[split]
        lost = counted(cut.lost, "answer fits", "answers fit")
        truncated = counted(cut.cut, "question")
        run.say(
            f"{counted(len(own), f'{name} question')}, {own.unanswerable:,} without answer, on "
            f"{counted(len(cut.lengths), 'passage')}: {counted(len(cut), 'window')} of up "
            f"to {run.config.data.length} tokens"
            + (f" · {lost} into no window" if cut.lost else "")
            + (
                f" · {truncated} truncated to {run.config.data.max_question} tokens"
                if cut.cut
                else ""
            )
        )
        run.say(describe_lengths(cut.lengths, "passage"))
    warn_of_few_rows(run, len(windows["train"]), "windows")
    shared = questions["validation"] and {*questions["train"].texts}.intersection(
        questions["validation"].texts
    )
    if shared:
        overlap = counted(
            len(shared),
            "validation passage is also a training passage",
            "validation passages are also training passages",
        )
        run.say(f"warning: {overlap}: the metrics overestimate the performance on new passages")


def _examples(run, windows, tokenizer, shuffle):
    config, by_length = run.config, run.config.data.by_length
    return window_examples(
        windows,
        tokenizer,
        length=config.data.length,
        batch_size=config.train.batch_size if shuffle else config.eval.batch_size,
        buckets=choose_buckets(run),
        seed=config.train.seed,
        shuffle=shuffle,
        by_length=by_length is not False,
    )


def _write_threshold(run, threshold, new=False):
    if run.chief and not (run.dry_run or (new and run.resumed)):
        run.workdir.write_json("reading.json", {"threshold": threshold})


def _hashes(run, questions):
    """Returns the SHA-256 of the tokenizer, the data files and the question ids of each split."""
    hashes = run.tokenizer_hashes()
    for split, own in questions.items():
        if own:
            hashes.update({name: file_sha256(name) for name in own.files})
            hashes[f"{split} questions"] = hashlib.sha256(json.dumps(own.ids).encode()).hexdigest()
    return hashes


TASK = SpanQA()
