"""A small finetuning run with data that could break its report, and a parser of the report."""

import html.parser
import json

from keras_attn import finetune
from keras_attn.defaults import finetuning_defaults

LABELS = ("<b>good</b> & 'fine'", "bad")
TEXTS = (
    "a <script>document.title = 'broken'</script> film",
    "\"quotes' & &amp; </blockquote></main> <!-- ",
    "مرحبا بالعالم \u202e turned round",
    "bell \x07, escape \x1b[1m, end",
    "unbroken" * 80,
    "🙂 Ünïcode 漢字",
)


def config_of(folder, texts=TEXTS, labels=LABELS, **fields):
    """Returns a config and writes its data: one of two rows of each validation text is wrong."""
    words = ("lovely", "awful")
    train = [
        {
            "text": f"{words[number % 2]} film {number}",
            "pair": f"seen {number} times",
            "label": labels[number % 2],
            "score": number % 7,
        }
        for number in range(60)
    ]
    validation = [
        {"text": text, "pair": text[::-1], "label": label, "score": len(text)}
        for text in texts
        for label in labels
    ]
    for name, rows in (("train", train), ("validation", validation)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.validation": str(folder / "validation.jsonl"),
            "data.length": 16,
            "data.vocab_size": 200,
            "train.steps": 4,
            "train.batch_size": 8,
            "eval.every": 2,
            **fields,
        }
    )
    return config


def finetuned(folder, texts=TEXTS, **fields):
    """Finetunes in `folder / "run"`, which it returns with the results."""
    results = finetune(config_of(folder, texts, **fields), workdir=str(folder / "run"))
    return folder / "run", results


class Reader(html.parser.HTMLParser):
    """What a page shows.

    Attributes:
        tables: Rows of strings, by the label of the table's region.
        numbers: Terms and values of the definition list.
        quotes: Of the rows, in order.
        elements: Names and attributes of all elements.
        text: Since the last start of a cell, term or quote.
    """

    def __init__(self, page):
        super().__init__()
        self.tables, self.numbers, self.quotes, self.elements = {}, {}, [], []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.elements.append((tag, given))
        if given.get("role") == "region":
            self._rows = self.tables.setdefault(given["aria-label"], [])
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th", "dt", "dd", "blockquote"):
            self.text = ""

    def handle_data(self, data):
        self.text += data

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._rows[-1].append(self.text)
        elif tag == "dt":
            self._term = self.text
        elif tag == "dd":
            self.numbers[self._term] = self.text
        elif tag == "blockquote":
            self.quotes.append(self.text)
