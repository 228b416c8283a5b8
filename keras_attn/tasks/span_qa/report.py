"""The page that a run of reading comprehension leaves on its validation: report.html."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.reports.page import cut, isolated, join, section, table, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import MOST_ROWS, curves, figure, numbers
from keras_attn.tasks.span_qa.fields import METRICS
from keras_attn.tasks.span_qa.metrics import normalized, question_scores
from keras_attn.text.sentences import split_sentences
from keras_attn.training.records import read_records

ASKED = ("what", "who", "whom", "whose", "when", "where", "which", "why", "how")
AROUND = 120  # characters shown on each side of an answer


def reading_baselines(questions):
    """Mean scores of the baselines of reading comprehension.

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
    """Prints the F1 of a model beside its baselines, and warns if they are not beaten.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: As `reading_baselines` returns them.
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
    if results[metric] <= max(scores[metric] for scores in baselines.values()):
        run.say(
            "warning: the model is not better than its baselines. Train for more epochs, on "
            "more questions, or start from a model that was pretrained longer."
        )


def write_reading_report(run, results, baselines, questions, answers, threshold):
    """Writes the report of a finished run (the chief does), and says where it is.

    Args:
        run: `Run`.
        results: As in results.json.
        baselines: As `reading_baselines` returns them, on the chief.
        questions: `Questions` of each split, `train` and `validation`.
        answers: `Answer` for each validation question.
        threshold: Of `no_answer`, above which there is none; None: there always is one.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        rows = questions["validation"]
        sure = np.array([-answer.no_answer for answer in answers])
        sure += 0.0 if threshold is None else threshold
        given = [
            "" if threshold is not None and margin < 0 else answer.spans[0].text
            for answer, margin in zip(answers, sure, strict=True)
        ]
        scores = question_scores(rows.answers, given)
        sure = sure if threshold is None else np.abs(sure)
        notes = [
            tag(
                "p",
                "The validation questions also chose the weights or the threshold of no "
                "answer, which flatters: give finetune.evaluate other ones.",
                class_="faint",
            )
        ]
        chose = rows.unanswerable or run.config.eval.metric or run.config.eval.patience
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
                _lines_to_beat(scores, baselines),
                notes if chose else [],
            ),
            _kinds(rows, given, scores),
            curves(read_records(run.workdir.path), METRICS[0]),
            _errors(rows, answers, given, scores["exact"], sure),
            about_the_run(run, results, counts),
        )
        run.say(run.workdir / NAME)
    run.meet()  # a worker that ended before would look lost to the chief


def nearest_sentence(question, passage):
    """The sentence of a passage that has the most words of a question, of equal ones the first."""
    words = set(normalized(question).split())
    return max(
        split_sentences(passage) or [""],
        key=lambda sentence: len(words.intersection(normalized(sentence).split())),
    )


def _lines_to_beat(scores, baselines):
    lines = {
        "this model": {metric: np.mean(found) for metric, found in scores.items()},
        **baselines,
    }
    cells = [
        [name, *(figure(found[metric]) for metric in METRICS)] for name, found in lines.items()
    ]
    return table("What it has to beat", ["model", *METRICS], cells)


def _kinds(rows, given, scores):
    """Scores by what is asked for, and of the questions with and without answer."""

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
        next((word for word in normalized(question).split() if word in ASKED), "other")
        for question in rows.questions
    ]
    words = np.array(words)
    found = sorted(set(words), key=lambda word: (-np.sum(words == word), word))
    foot = [
        line(name, chosen)
        for name, chosen in (("all", has | ~has), ("with an answer", has), ("without one", ~has))
        if chosen.any()
    ]
    return section(
        "Kinds of questions",
        table(
            "Scores by the word that asks",
            ["asks", "questions", "answered", *METRICS],
            [line(word, words == word) for word in found],
            foot if rows.unanswerable else foot[:1],
        ),
    )


def _errors(rows, answers, given, exact, sure):
    """The questions of which the model is most sure and wrong."""
    wrong = np.flatnonzero(exact == 0)
    worst = wrong[np.argsort(-sure[wrong], kind="stable")][:MOST_ROWS]
    items = []
    for row in worst:
        span, right = answers[row].spans[0], list(dict.fromkeys(rows.answers[row]))
        place = (span.start, span.end) if given[row] else rows.places[row] or (0, 0)
        wanted = [
            [", " if number else "", tag("strong", isolated(text))]
            for number, text in enumerate(right)
        ] or "no answer"
        said = join(
            tag("span", isolated(given[row] or "no answer"), class_="wrong"), ", right: ", wanted
        )
        items.append(
            tag(
                "li",
                tag("p", said, " · ", isolated(rows.ids[row]), class_="meta"),
                tag("blockquote", cut(rows.questions[row]), dir="auto"),
                tag("blockquote", _around(rows.texts[row], *place), dir="auto"),
            )
        )
    line = (
        f"Answers that are not exactly one of the right ones: {len(wrong):,} of {len(rows):,}"
    ) + (
        f"; the {len(items)} of which the model is most sure are here."
        if len(wrong) > len(items)
        else "."
    )
    return section(
        "Most sure, and wrong", tag("p", line, class_="faint"), tag("ol", items, class_="rows")
    )


def _around(text, start, end):
    """Part of a passage."""
    first, last = max(0, start - AROUND), min(len(text), (end or 0) + AROUND)
    return cut(("… " if first else "") + text[first:last] + (" …" if last < len(text) else ""))
