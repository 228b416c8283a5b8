"""report.html of extractive question answering: the answers on the validation split."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.reports.page import cut, isolated, join, section, table, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import MAX_EXAMPLES, curves, figure, numbers
from keras_attn.tasks.finetuning.defaults import better_start
from keras_attn.tasks.span_qa.fields import METRICS
from keras_attn.tasks.span_qa.metrics import normalized, question_scores
from keras_attn.text.sentences import split_sentences
from keras_attn.training.records import read_records

QUESTION_WORDS = ("what", "who", "whom", "whose", "when", "where", "which", "why", "how")
CONTEXT = 120  # characters on each side of an answer


def reading_baselines(questions):
    """Returns the mean scores of the baselines.

    Args:
        questions: Validation `Questions`.

    Returns:
        Dict from the name of a baseline to a dict of metrics.
    """
    answers = {
        "the sentence with the most words of the question": [
            nearest_sentence(*pair)
            for pair in zip(questions.questions, questions.texts, strict=True)
        ]
    }
    if questions.unanswerable:
        answers["always no answer"] = [""] * len(questions)
    return {
        name: {
            metric: float(np.mean(scores))
            for metric, scores in question_scores(questions.answers, own).items()
        }
        for name, own in answers.items()
    }


def report_reading_baselines(run, results, baselines):
    """Prints the F1 of the model and its baselines, and warns if the model is not better.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: Result of `reading_baselines`.
    """
    metric = METRICS[0]
    run.say(
        " · ".join(
            [
                f"{metric} {results[metric]:.3f}",
                *(f"{name} {scores[metric]:.3f}" for name, scores in baselines.items()),
            ]
        )
    )
    best = max(scores[metric] for scores in baselines.values())
    if results[metric] <= best and results[metric] < 1:
        run.say(
            "warning: the model is not better than its baselines. Train for more epochs, on "
            f"more questions, or {better_start(run.family)}."
        )


def write_reading_report(run, results, baselines, questions, answers, threshold):
    """Writes the report of a finished run on the chief, and prints its path.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: Result of `reading_baselines`, on the chief.
        questions: `Questions` of each split, `train` and `validation`.
        answers: `Answer` to each validation question.
        threshold: Value of `no_answer` above which there is no answer; None: there is always one.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        rows = questions["validation"]
        margins = np.array([-answer.no_answer for answer in answers])
        margins += 0.0 if threshold is None else threshold
        given = [
            "" if threshold is not None and margin < 0 else answer.spans[0].text
            for answer, margin in zip(answers, margins, strict=True)
        ]
        scores = question_scores(rows.answers, given)
        confidence = margins if threshold is None else np.abs(margins)
        notes = [
            tag(
                "p",
                "The weights or the threshold of no answer were selected on the validation split, "
                "so the metrics have a selection bias: run finetune.evaluate on other questions.",
                class_="faint",
            )
        ]
        selected = rows.unanswerable or run.config.eval.metric or run.config.eval.patience
        counts = {
            "training questions": f"{len(questions['train']):,}",
            "validation questions": f"{len(rows):,}",
            "misplaced answers in the training file": f"{questions['train'].misplaced:,}",
        }
        write_page(
            run.workdir,
            f"{counted(len(rows), 'validation question')} · {rows.unanswerable:,} without answer",
            section(
                "Results",
                numbers({name: results[name] for name in METRICS}),
                _compare(scores, baselines),
                notes if selected else [],
            ),
            _kinds(rows, given, scores),
            curves(read_records(run.workdir.path), METRICS[0]),
            _errors(rows, answers, given, scores["exact"], confidence),
            about_the_run(run, results, counts),
        )
        run.say(run.workdir / NAME)
    run.barrier()  # the chief would report a worker that ends earlier as lost


def nearest_sentence(question, passage):
    """Returns the first sentence of a passage with the most words of a question."""
    words = set(normalized(question).split())
    return max(
        split_sentences(passage) or [""],
        key=lambda sentence: len(words.intersection(normalized(sentence).split())),
    )


def _compare(scores, baselines):
    models = {
        "this model": {metric: np.mean(found) for metric, found in scores.items()},
        **baselines,
    }
    cells = [
        [name, *(figure(found[metric]) for metric in METRICS)] for name, found in models.items()
    ]
    return table("Scores and baselines", ["model", *METRICS], cells)


def _kinds(rows, given, scores):
    """Section with scores by question word, and of the questions with and without an answer."""

    def line(name, chosen):
        return [
            name,
            f"{chosen.sum():,}",
            f"{answered[chosen].mean():.1%}",
            *(figure(scores[metric][chosen].mean()) for metric in METRICS),
        ]

    answered = np.array([bool(answer) for answer in given])
    has = np.array([bool(own) for own in rows.answers])
    words = [
        next((word for word in normalized(question).split() if word in QUESTION_WORDS), "other")
        for question in rows.questions
    ]
    words = np.array(words)
    found = sorted(set(words), key=lambda word: (-np.sum(words == word), word))
    foot = [
        line(name, chosen)
        for name, chosen in (
            ("all", has | ~has),
            ("with an answer", has),
            ("without an answer", ~has),
        )
        if chosen.any()
    ]
    return section(
        "Kinds of questions",
        table(
            "Scores by question word",
            ["question word", "questions", "answered", *METRICS],
            [line(word, words == word) for word in found],
            foot if rows.unanswerable else foot[:1],
        ),
    )


def _errors(rows, answers, given, exact, confidence):
    """Section with the most confident wrong answers."""
    wrong = np.flatnonzero(exact == 0)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:MAX_EXAMPLES]
    items = []
    for row in worst:
        span, right = answers[row].spans[0], list(dict.fromkeys(rows.answers[row]))
        place = (span.start, span.end) if given[row] else rows.places[row] or (0, 0)
        wanted = [
            [", " if number else "", tag("strong", isolated(text))]
            for number, text in enumerate(right)
        ] or "no answer"
        description = join(
            tag("span", isolated(given[row] or "no answer"), class_="wrong"), ", right: ", wanted
        )
        items.append(
            tag(
                "li",
                tag("p", description, " · ", isolated(rows.ids[row]), class_="meta"),
                tag("blockquote", cut(rows.questions[row]), dir="auto"),
                tag("blockquote", _context(rows.texts[row], *place), dir="auto"),
            )
        )
    line = (f"Answers without an exact match: {len(wrong):,} of {len(rows):,}") + (
        f"; these are the {len(items)} with the highest confidence."
        if len(wrong) > len(items)
        else "."
    )
    return section(
        "Most confident errors", tag("p", line, class_="faint"), tag("ol", items, class_="rows")
    )


def _context(text, start, end):
    """Excerpt of a passage around an answer."""
    first, last = max(0, start - CONTEXT), min(len(text), (end or 0) + CONTEXT)
    return cut(("… " if first else "") + text[first:last] + (" …" if last < len(text) else ""))
