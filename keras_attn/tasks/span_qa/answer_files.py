"""What the commands do with a model that reads: answers, and their metrics."""

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
        file, output: The open output and its name.
    """
    _check_output(output)
    ids = [str(number) for number in range(len(questions))]
    _write(file, ids, answerer.answer(questions, passages or []), output)


def answer_file(answerer, source, file, output, batch_size, asked):
    """Writes an answer for each question of files of SQuAD.

    A .json file gets `{id: answer}`, as SQuAD's own scripts take it, any other output a JSON
    object a line with `id` and what `Answerer.answer` tells.

    Args:
        answerer: `Answerer`.
        source: JSON file of SQuAD, with or without answers, or a glob.
        file, output: The open output and its name.
        batch_size: Rows worked on together.
        asked: Dict of how to read a table, which this is none: all None.
    """
    _check_output(output)
    check_no_table(asked)
    questions = read_questions(source, answers=False)
    found = answerer.answer(questions.questions, questions.texts, batch_size=batch_size)
    _write(file, questions.ids, found, output)
    print(f"{counted(len(found), 'question')} answered", file=sys.stderr)


def evaluate_answers(answerer, source, batch_size, on_bad_text):
    """Measures a model on files of SQuAD.

    Returns:
        Dict of `reading_metrics`, with the threshold of the model; `examples`; and `misplaced`,
        how many right answers are not where they should be.
    """
    on_bad_text = on_bad_text or answerer.config["data"]["on_bad_text"]
    questions = read_questions(source, on_bad_text=on_bad_text)
    answers = answerer.find(questions, batch_size=batch_size)
    return {
        **metrics_of(questions, answers, limit(answerer.threshold)),
        "examples": len(questions),
        "misplaced": questions.misplaced,
    }


def limit(threshold):
    """A threshold as a number; None, that there always is an answer, is infinite."""
    return math.inf if threshold is None else threshold


def metrics_of(questions, answers, threshold):
    """`reading_metrics` of a list of `Answer`, one for each of `Questions`."""
    return reading_metrics(
        questions.answers,
        [answer.spans[0].text for answer in answers],
        [answer.no_answer for answer in answers],
        threshold,
    )


def check_no_table(asked):
    """Raises UserError if it is said how to read a table."""
    for name, value in asked.items():
        if value is not None:
            raise UserError(
                "Files of SQuAD are needed by a model that reads, which have fields "
                f"of their own. Received: {name}={value}"
            )


def _check_output(output):
    if output != "-" and not output.endswith((".json", ".jsonl")):
        raise UserError(
            f"--output must end in .json or .jsonl for answers, or be -. Received: {output}"
        )


def _write(file, ids, answers, output):
    if output.endswith(".json"):
        named = {identity: found["answer"] for identity, found in zip(ids, answers, strict=True)}
        file.write(json.dumps(named, ensure_ascii=False, indent=1) + "\n")
        return
    for identity, found in zip(ids, answers, strict=True):
        file.write(json.dumps({"id": identity, **found}, ensure_ascii=False) + "\n")
