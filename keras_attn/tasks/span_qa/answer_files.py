"""Answers of a question answering model to texts and files, and their metrics."""

import json
import math
import sys

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.tasks.span_qa.examples import read_questions
from keras_attn.tasks.span_qa.metrics import reading_metrics


def answer_texts(answerer, questions, passages, file, output):
    """Writes an answer for each question; see `answer_file`.

    Args:
        answerer: `Answerer`.
        questions, passages: Lists of strings.
        file: The open output file.
        output: Its name.
    """
    ids = [str(number) for number in range(len(questions))]
    _write(file, ids, answerer.answer(questions, passages or []), output)


def answer_file(answerer, source, file, output, batch_size, reading):
    """Writes an answer for each question of SQuAD files.

    The content of a .json file is `{id: answer}`, the format of the SQuAD evaluation scripts. Other
    outputs have a line per question: a JSON object with `id` and the result of `Answerer.answer`.

    Args:
        answerer: `Answerer`.
        source: SQuAD file, with or without answers, or a glob.
        file: The open output file.
        output: Its name.
        batch_size: Batch size.
        reading: Options of tables, all None.
    """
    reject_table_options(reading)
    questions = read_questions(source, answers=False)
    found = answerer.answer(questions.questions, questions.texts, batch_size=batch_size)
    _write(file, questions.ids, found, output)
    print(f"{counted(len(found), 'question')} answered", file=sys.stderr)


def evaluate_answers(answerer, source, batch_size, on_bad_text):
    """Evaluates a model on SQuAD files.

    Returns:
        Dict of `reading_metrics` with the threshold of the model; `examples`; and `misplaced`, the
        number of answers that are not at `answer_start`.
    """
    on_bad_text = on_bad_text or answerer.config["data"]["on_bad_text"]
    questions = read_questions(source, on_bad_text=on_bad_text)
    answers = answerer.find(questions, batch_size=batch_size)
    return {
        **metrics_of(questions, answers, as_number(answerer.threshold)),
        "examples": len(questions),
        "misplaced": questions.misplaced,
    }


def as_number(threshold):
    """Returns a threshold as a number: infinity for None, with which there is always an answer."""
    return math.inf if threshold is None else threshold


def metrics_of(questions, answers, threshold):
    """Returns the `reading_metrics` of an `Answer` for each of `Questions`."""
    return reading_metrics(
        questions.answers,
        [answer.spans[0].text for answer in answers],
        [answer.no_answer for answer in answers],
        threshold,
    )


def reject_table_options(reading):
    """Raises a `UserError` if an option of tables is set."""
    for name, value in reading.items():
        if value is not None:
            raise UserError(
                f"{name} does not apply to the SQuAD files of question answering models. "
                f"Received: {name}={value}"
            )


def _write(file, ids, answers, output):
    if output.endswith(".json"):
        named = {identity: found["answer"] for identity, found in zip(ids, answers, strict=True)}
        file.write(json.dumps(named, ensure_ascii=False, indent=1) + "\n")
        return
    for identity, found in zip(ids, answers, strict=True):
        file.write(json.dumps({"id": identity, **found}, ensure_ascii=False) + "\n")
