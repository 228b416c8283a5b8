"""Small files in the format of SQuAD, of made-up sentences."""

import json
import random

NAMES = ["Ada", "Bert", "Cora", "Dirk", "Emma", "Fred", "Gina", "Hugo", "Ines", "Jens", "Kira"]
PLACES = ["Bonn", "Lima", "Oslo", "Paris", "Riga", "Rome", "Tunis", "Ulm", "Zürich", "Łódź"]
THINGS = ["apples", "boats", "cups", "drums", "eggs", "flutes"]


def question(identity, text, answers=(), passage="", **fields):
    """One question; answers are texts in the passage, at their first place."""
    found = [{"text": answer, "answer_start": passage.index(answer)} for answer in answers]
    return {"id": identity, "question": text, "answers": found, **fields}


def paragraph(passage, *questions):
    """One passage; questions are `(id, text, answer, ...)`."""
    return {
        "context": passage,
        "qas": [
            question(identity, text, answers, passage) for identity, text, *answers in questions
        ],
    }


def write(path, *paragraphs, version="1.1"):
    """Writes a file of one article a paragraph."""
    articles = [{"title": f"article {n}", "paragraphs": [one]} for n, one in enumerate(paragraphs)]
    path.write_text(json.dumps({"version": version, "data": articles}, ensure_ascii=False))
    return str(path)


def made_up(passages, seed=0, impossible=False):
    """Passages of three sentences, with a question on who and one on where for each.

    With `impossible`, also one on somebody who is not in the passage.
    """
    draw, found = random.Random(seed), []
    for number in range(passages):
        names, things = draw.sample(NAMES, 4), draw.sample(THINGS, 3)
        places = draw.sample(PLACES, 3)
        text = " ".join(
            f"{n} sells {t} in {p}." for n, t, p in zip(names, things, places, strict=False)
        )
        which = draw.randrange(3)
        questions = [
            (f"{number}-who", f"Who sells {things[which]}?", names[which]),
            (f"{number}-where", f"Where is {names[which]}?", places[which]),
        ]
        if impossible:
            questions.append((f"{number}-none", f"Where is {names[3]}?"))
        found.append(paragraph(text, *questions))
    return found
