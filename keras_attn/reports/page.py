"""HTML pages in one file: elements, tables and style, without scripts and network access."""

import html
import re

MAX_CHARACTERS = 300

# The Content-Security-Policy forbids loading anything.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
_STYLE = """
:root { --paper: #fdfdfb; --ink: #1d1d1b; --faint: #66655f; --rule: #dddcd5; --tint: 38 92 160;
  --bad: #a63a24; color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --paper: #171716; --ink: #e7e5df; --faint: #a19f97; --rule: #3a3935; --tint: 120 170 232;
    --bad: #ee937e }
}
* { box-sizing: border-box }
html { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif;
  background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100% }
body { margin: 0; overflow-wrap: anywhere }
main { max-width: 74rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1, h2 { font-family: Charter, "Bitstream Charter", Georgia, "Liberation Serif", serif;
  font-weight: 600; line-height: 1.2; text-wrap: balance }
h1 { font-size: 2.1rem; margin: 0 }
h2 { font-size: 1.35rem; margin: 0 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--rule) }
h3 { font-size: .95rem; margin: .4rem 0 }
p { margin: .4rem 0; max-width: 44rem }
.faint, figcaption, .meta { color: var(--faint); font-size: .875rem }
section { margin-top: 2.4rem }
.columns { display: grid; gap: 1rem 3rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)) }
.three { gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)) }
.columns > * { min-width: 0 }
dl.numbers { display: flex; flex-wrap: wrap; gap: 1.2rem 3rem; margin: 1.6rem 0 0 }
dl.numbers div { display: flex; flex-direction: column-reverse }
dl.numbers dd { margin: 0; font-size: 1.9rem; line-height: 1.15;
  font-variant-numeric: tabular-nums }
dl.numbers dt { color: var(--faint); font-size: .875rem }
.box { overflow: auto }
.tall { max-height: 34rem }
dl.numbers + * { margin-top: 1.6rem }
dd small { font-size: 1.1rem; color: var(--faint) }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .28rem .7rem; text-align: right; border-bottom: 1px solid var(--rule);
  overflow-wrap: normal }
td { white-space: nowrap }
th:first-child, td:first-child { padding-left: 0 }
thead th { color: var(--faint); font-weight: 500; vertical-align: bottom; position: sticky; top: 0;
  background: var(--paper) }
tbody th { font-weight: 500 }
th.text, td.text, tbody th { text-align: left; min-width: 7.5rem; max-width: 20rem;
  overflow-wrap: anywhere; white-space: normal }
tfoot td, tfoot th { border-bottom: 0; color: var(--faint); font-weight: 500 }
tfoot th { text-align: left }
table.matrix td { text-align: center; min-width: 2.6rem; border: 1px solid var(--paper);
  background: rgb(var(--tint) / calc(.03 + .5 * var(--share, 0))) }
table.matrix tbody th { min-width: 4rem; max-width: 11rem }
table.matrix thead th { text-align: center }
table.upright thead th + th { writing-mode: vertical-rl; transform: rotate(180deg);
  text-align: left; max-height: 11rem; overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis }
figure { margin: 0 }
figure.wide { max-width: 40rem }
svg { display: block; width: 100%; height: auto;
  font: 10px system-ui, "Liberation Sans", sans-serif }
td svg { width: 10rem }
svg text { fill: var(--faint) }
svg .rule { stroke: var(--rule); stroke-width: 1; fill: none }
svg .dashed { stroke: var(--faint); stroke-width: 1; stroke-dasharray: 3 3; fill: none }
svg .line { stroke: rgb(var(--tint)); stroke-width: 1.5; stroke-linejoin: round; fill: none }
svg .pale { stroke: rgb(var(--tint) / .55) }
svg .dot { fill: rgb(var(--tint)); stroke: var(--paper); stroke-width: 1 }
svg .point { fill: rgb(var(--tint) / .45) }
svg .bar { fill: rgb(var(--tint) / .35) }
ol.rows { list-style: none; margin: 1rem 0 0; padding: 0; display: grid; gap: 1.3rem 3rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)) }
ol.rows li { min-width: 0; break-inside: avoid }
blockquote { margin: .35rem 0; padding-inline-start: .8rem;
  border-inline-start: 2px solid var(--rule) }
.wrong { color: var(--bad) }
a { color: rgb(var(--tint)) }
:focus-visible { outline: 2px solid rgb(var(--tint)); outline-offset: 2px }
@media (max-width: 36rem) { main { padding-top: 1.5rem } h1 { font-size: 1.7rem }
  dl.numbers { gap: 1rem 2rem } dl.numbers dd { font-size: 1.55rem } }
@media print { :root { --paper: #fff; --ink: #000; --faint: #444; --rule: #bbb; --tint: 38 92 160;
    --bad: #8f2a14 }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
  html { font-size: 11px } main { padding: 0 } .box { max-height: none; overflow: visible }
  figure, tr { break-inside: avoid } h2 { break-after: avoid } thead th { position: static } }
"""
# Control characters except whitespace, and surrogates, which UTF-8 cannot encode.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Markup(str):
    """HTML; all other strings are escaped."""


def tag(name, *content, **attributes):
    """Returns an HTML element.

    Args:
        name: Name of the element.
        *content: `Markup`, lists of it, or text, which is escaped.
        **attributes: Values, which are escaped; None: no attribute. In names, `_` is replaced by
            `-`, and removed at the end (`class_`).
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(*content)}</{name}>")


def join(*content):
    """Joins `Markup`, lists of it and text."""
    return Markup(
        "".join(
            join(*item) if isinstance(item, (list, tuple)) else escaped(item) for item in content
        )
    )


def escaped(value):
    """Escapes a value; characters that cannot be displayed become U+FFFD."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(_UNSEEN.sub("\ufffd", str(value))))


def page(title, *body):
    """Returns the HTML file, as bytes."""
    return _PAGE.format(title=escaped(title), style=_STYLE, body=join(*body)).encode()


def section(title, *content):
    """Returns a section with a heading."""
    return tag("section", tag("h2", title), *content)


def columns(*content, kind=""):
    """Returns a multi-column layout, which has fewer columns on narrow screens."""
    return tag("div", *content, class_=f"columns {kind}".strip())


def table(label, heads, rows, foot=(), text=(0,), kind=None):
    """Returns a table, which scrolls if it is too wide or has more than 20 rows.

    Args:
        label: Description for screen readers.
        heads: Column headers.
        rows, foot: Lists of cells; the first cell is the row header. A cell is its content, or a
            pair of content and a dict of attributes.
        text: Indices of the columns that contain text instead of numbers.
        kind: CSS class of the table.
    """

    def row(cells):
        row_cells = []
        for column, cell in enumerate(cells):
            cell, attributes = cell if isinstance(cell, tuple) else (cell, {})
            if column == 0:
                attributes = {"scope": "row", **attributes}
            row_cells.append(
                tag(
                    "td" if column else "th",
                    cell,
                    **attributes,
                    class_="text" if column in text else None,
                )
            )
        return tag("tr", row_cells)

    rows = list(rows)
    head = tag(
        "tr",
        [
            tag("th", head, scope="col", class_="text" if column in text else None)
            for column, head in enumerate(heads)
        ],
    )
    return tag(
        "div",
        tag(
            "table",
            tag("thead", head),
            tag("tbody", [row(cells) for cells in rows]),
            tag("tfoot", [row(cells) for cells in foot]) if foot else "",
            class_=kind,
        ),
        class_="tall box" if len(rows) > 20 else "box",
        role="region",
        aria_label=label,
        tabindex="0",
    )


def cut(text, most=MAX_CHARACTERS):
    """Returns a text in one line, truncated with an ellipsis if it is too long."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most].rstrip() + "…"


def isolated(text):
    """Returns a text as an inline element whose text direction does not affect its context."""
    return tag("bdi", cut(text))
