"""Evaluating a finetuned workdir on other labelled rows, or other translations."""

import itertools
import posixpath

import numpy as np

from keras_attn.data.sources.tables import place
from keras_attn.errors import UserError
from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import Answerer, load_predictor
from keras_attn.inference.predict_files import CHUNK, rows_of_files, texts_of
from keras_attn.runs.sweep import seeds_of
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.labels import LabelSet, encode_labels
from keras_attn.tasks.classification.metrics import (
    metric_names,
    metrics_among,
    over_seeds,
    task_metrics,
)
from keras_attn.tasks.classification.report_numbers import details, mean_scores
from keras_attn.tasks.span_qa.answer_files import check_no_table, evaluate_answers
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.tasks.translation.translator import SavedTranslator, Translator, read_sentences


def evaluate(workdir, data, batch_size=64, *, format=None, text=None, text_pair=None, label=None,
             on_bad_text=None, encoding=None, max_line=None):
    """Measures a finetuned model on labelled rows, in float32.

    Args:
        workdir: Folder of a finetuning run, or of several: each seed that its results are means of
            is measured.
        data: Labelled rows: TSV, CSV, JSONL or Parquet file, a glob, or tfds:NAME[:SPLIT],
            its validation without a split.
        batch_size: Rows worked on together; the results do not depend on it.
        format, text, text_pair, label, on_bad_text, encoding, max_line: See `iterate_rows`. None:
            as in training.

    Returns:
        Dict of the metrics of the task, `loss`, `examples`, `skipped` and what `details` tells;
        of a model that reads what `evaluate_answers` returns. Of several seeds what `over_seeds`
        and `mean_scores` make of these, `examples`, `skipped`, and `runs`: `run`, `seed` and
        metrics of each.

    Raises:
        UserError: If there are no rows, or a label is not one of training.
    """
    reading = {"format": format, "text": text, "text_pair": text_pair, "label": label,
               "on_bad_text": on_bad_text, "encoding": encoding, "max_line": max_line}
    seeds = seeds_of(workdir)
    if len(seeds) < 2:
        return _evaluate(workdir, data, batch_size, reading)
    each = [_evaluate(posixpath.join(workdir, run["run"]), data, batch_size, reading)
            for run in seeds]
    runs = [{"run": run["run"], "seed": run["seed"], **metrics_among(found)}
            for run, found in zip(seeds, each, strict=True)]
    return {**over_seeds(runs, metrics_among(each[0])), **mean_scores(each),
            **{name: each[0][name] for name in ("examples", "skipped") if name in each[0]},
            "runs": runs}


def _evaluate(workdir, data, batch_size, reading):
    """Of a single run."""
    predictor = load_predictor(workdir, answers=True)
    if isinstance(predictor, Answerer):
        check_no_table({**reading, "on_bad_text": None})
        return evaluate_answers(predictor, data, batch_size, reading["on_bad_text"])
    asked = {**reading, "split": "validation"}
    format = asked.pop("format")
    if predictor.kind == "multilabel":
        asked["unlabelled"] = True
    tables = rows_of_files(predictor, data, format, asked)
    rows = itertools.chain.from_iterable(tables)
    task = glue.task_of(predictor.config["data"]["task"])
    known = predictor.labels and (task.label_set() if task else LabelSet(predictor.labels))
    labels, shares = [], []
    while chunk := list(itertools.islice(rows, CHUNK)):
        labels.append(encode_labels([row.label for row in chunk], known, predictor.kind,
                                    predictor.label_separator, _places(chunk)))
        shares.append(predictor.probabilities(*texts_of(chunk), batch_size))
    if not labels:
        raise UserError(f"At least one row is needed. Received: {data}")
    warn_of_cut_texts(predictor)
    labels, shares = np.concatenate(labels), np.concatenate(shares)
    names = metric_names(predictor.kind, len(predictor.labels), task and task.metrics,
                         predictor.config.get("eval", {}).get("metric"))
    return {**task_metrics(labels, shares, predictor.kind, names, predictor.label_deviation),
            "examples": len(labels), "skipped": sum(sum(t.skipped.values()) for t in tables),
            **details(predictor.labels, labels, shares, predictor.kind)}


def evaluate_translations(workdir, source, target=None, batch_size=32, *, beam=None,
                          length_penalty=None, format=None, source_column=None,
                          target_column=None, on_bad_text=None, encoding=None,
                          max_line=None, precision="float32"):
    """Measures a translator on other sentences, as its run did.

    Args:
        workdir: Folder of the run of a translator.
        source, target: Aligned files, or a table or TFDS set alone; see `read_parallel`.
        batch_size, beam, length_penalty: See `Translator.translate`.
        format, source_column, target_column, on_bad_text, encoding, max_line: See `config.data`;
            "skip" leaves out what is too long, too. None: as in training.
        precision: See `keras_attn.load`.

    Returns:
        Dict of `bleu`, `chrf`, sacrebleu's signatures of both, `examples` and `skipped`.

    Raises:
        UserError: If sentences cannot be read, or their source is too long.
    """
    saved = SavedTranslator(workdir)
    usual = saved.config["eval"]
    asked = {"format": format, "source_column": source_column, "target_column": target_column,
             "on_bad_text": on_bad_text, "encoding": encoding, "max_line": max_line}
    data = saved.config["data"] | {name: value for name, value in asked.items() if value}
    texts = read_sentences(data, source, target, "test")
    translator = Translator.load(saved, precision)
    # By the source alone: what is scored must not depend on how a model cuts the references.
    rows = translator.encode(texts.sources)
    fits = [translator.fits(row) for row in rows]
    if not any(fits) or (not all(fits) and data["on_bad_text"] == "error"):
        raise UserError(f"Sentences of at most {translator.length - 1} tokens are needed; "
                        "on_bad_text=skip leaves longer ones out. "
                        f"Received: {texts.where(fits.index(False))}")
    found = translator.translate_ids(list(itertools.compress(rows, fits)), beam,
                                     length_penalty=length_penalty, batch_size=batch_size)
    scores = translation_scores([row[0]["text"] for row in found],
                                list(itertools.compress(texts.targets, fits)),
                                lowercase=usual["lowercase"], tokenize=usual["tokenize"])
    return {**{name: score for name, (score, _) in scores.items()},
            **{f"{name}_signature": signature for name, (_, signature) in scores.items()},
            "examples": len(found),
            "skipped": sum(texts.skipped.values()) + len(rows) - len(found)}


def _places(rows):
    """Function from a row's number to where it is."""
    return lambda number: place(rows[number].file, rows[number].line)
