"""Question answering: files of SQuAD in, a model that finds answers out."""

import hashlib
import json
import math
from reprlib import repr as shorten

from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.data.sources.files import file_sha256
from keras_attn.errors import UserError
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.choices import (
    check_training,
    choose_best,
    choose_buckets,
    choose_rows,
    tell_few_rows,
    told_lengths,
)
from keras_attn.tasks.finetuning.defaults import FinetuningDefaults
from keras_attn.tasks.model_arguments import require_float32
from keras_attn.tasks.span_qa.answer_files import (
    answer_file,
    answer_texts,
    check_no_table,
    evaluate_answers,
    limit,
    metrics_of,
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

OF_TABLES = ("text", "text_pair", "label", "format", "header", "windows", "max_line")


class SpanQA(Task):
    """Question answering by spans of a passage.

    The metrics are those of `reading_metrics`, with the best threshold.
    """

    name = "span_qa"
    command = "python -m finetune.predict"

    def plan(self, run):
        config, data = run.config, run.config.data
        _check(config)
        architecture = run.family.choose_architecture(run)
        check_training(run, architecture.get("num_layers", 0))
        questions = _read_splits(run)
        best = choose_best(run, METRICS, questions["validation"])
        tokenizer = choose_tokenizer(
            run, lambda: [*dict.fromkeys(questions["train"].texts), *questions["train"].questions]
        )
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        defaults = FinetuningDefaults(run)
        if data.length is None:
            defaults.choose(
                "data.length",
                min(architecture["max_length"], DEFAULT_LENGTH),
                "SQuAD's usual length",
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
        _report(run, questions, windows)
        if not windows["train"].weights.any():
            raise UserError(
                "At least one training question must have an answer where "
                "answer_start says, or be impossible. "
                f"Received: data.train={data.train}"
            )
        defaults.choose_training(len(windows["train"]), architecture["hidden_dim"])
        defaults.report()
        # BERT's own, as long as no validation tells a better one.
        threshold = 0.0 if questions["train"].unanswerable else None
        # First: `start` makes the folder that of a run, which answers by it.
        _write_threshold(run, threshold, new=True)
        other = not run.resumed and run.pretrained and run.pretrained.task != self.name
        newest = {}

        def metrics(model, results, logits, stop):
            own = windows["validation"]
            answers = find_answers(
                own, logits[: len(own)], questions["validation"].texts, data.max_answer
            )
            newest["answers"] = answers
            # Only questions without answer tell a threshold.
            known = None if questions["validation"].unanswerable else limit(threshold)
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
            ("span_dense",) if other else (),
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
        half = trained.architecture["max_length"] // 2
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
        check_no_table({**reading, "on_bad_text": None})
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
    """Returns the threshold of the newest evaluation, or of the best one if that chose the weights;
    else of reading.json. None: the model always answers.

    Raises:
        UserError: If reading.json has no threshold.
    """
    content = workdir.read_json("reading.json")
    threshold = content.get("threshold", "") if content else ""
    number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if not (threshold is None or number and math.isfinite(threshold)):
        raise UserError(
            f"{workdir / 'reading.json'} must be that of a model that reads, with a "
            "threshold. Received: something else, or no file"
        )
    state = Checkpoints(workdir / "checkpoints", log=lambda *_: None).read_state() or {}
    found = (state.get("best") or {}).get("found") or state.get("validation") or {}
    return found.get("threshold", threshold)


def _check(config):
    data = config.data
    for name in OF_TABLES:
        if data[name] is not None:
            raise UserError(
                f"data.{name} must be left out in {NAME}: files of SQuAD have "
                f"fields of their own. Received: data.{name}={data[name]}"
            )
    if data.regression or data.pack > 1:
        raise UserError(
            f"data.regression=False and data.pack=1 are needed in {NAME}. "
            f"Received: data.regression={data.regression}, data.pack={data.pack}"
        )
    if config.train.class_weights:
        raise UserError(f"train.class_weights needs one class a row. Received: data.task={NAME}")
    if not data.train:
        raise UserError(
            "data.train must name the training data: a JSON file of SQuAD, or a glob. "
            "Received: data.train=None"
        )


def _read_splits(run):
    """`Questions` of the splits; None where there is no validation."""
    data = run.config.data
    found = {
        split: data[split] and read_questions(data[split], on_bad_text=data.on_bad_text)
        for split in ("train", "validation")
    }
    for split, own in found.items():
        if own and own.misplaced:
            answers = counted(
                own.misplaced,
                "answer is not where it should be",
                "answers are not where they should be",
            )
            run.say(f"{answers} in data.{split}")
    return choose_rows(run, found, "questions")


def _report(run, questions, windows):
    """Says what the data are, before anything is learnt from them."""
    for split, own in questions.items():
        if own is None:
            run.say("no validation questions: the results will hold no metrics")
            continue
        name, parts = "training" if split == "train" else split, windows[split]
        lost = counted(parts.lost, "answer fits", "answers fit")
        cut = counted(parts.cut, "question")
        run.say(
            f"{counted(len(own), f'{name} question')}, {own.unanswerable:,} without answer, on "
            f"{counted(len(parts.lengths), 'passage')}: {counted(len(parts), 'window')} of up "
            f"to {run.config.data.length} tokens"
            + (f" · {lost} into no window" if parts.lost else "")
            + (f" · {cut} cut at {run.config.data.max_question} tokens" if parts.cut else "")
        )
        run.say(told_lengths(parts.lengths, "passage"))
    tell_few_rows(run, len(windows["train"]), "windows")
    shared = questions["validation"] and {*questions["train"].texts}.intersection(
        questions["validation"].texts
    )
    if shared:
        overlap = counted(
            len(shared),
            "validation passage is a training passage, too",
            "validation passages are training passages, too",
        )
        run.say(f"warning: {overlap}: the metrics say little about new ones")


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
    """SHA-256 of the vocabulary, of files, and of the names of each split's questions."""
    hashes = run.tokenizer_hashes()
    for split, own in questions.items():
        if own:
            hashes.update({name: file_sha256(name) for name in own.files})
            hashes[f"{split} questions"] = hashlib.sha256(json.dumps(own.ids).encode()).hexdigest()
    return hashes


TASK = SpanQA()
