"""Extracts English sentences from docstrings, without code, tables, headings, signatures and
markup.
"""

import inspect
import re

from keras_attn.text.sentences import split_long, split_sentences

_RULE = re.compile(r"[=\-~^+#*_.:|`\s]{3,}")
_HEADING = re.compile(r"[A-Z][\w /()-]{0,40}:")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,2}[.)]|\(\d\))\s+")
# `x: …`, `x (int): …` and `:param int x: …`; the text after them is kept.
_ENTRY = re.compile(r"(?::\w[^:]*|`{0,2}\*{0,2}[\w.]+`{0,2}(?:\s*\([^)]*\))?):\s+(?=\S)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}[\w, *]+ : \S")
_LITERAL = re.compile(
    r"\.\. (?:code|sourcecode|math|image|figure|plot|table|parsed-literal|raw|ipy)"
)
# Repetitions are bounded, as runs of colons or brackets would take quadratic time otherwise.
_ROLE = re.compile(r":[\w:-]{1,40}:`~?([^`<]+?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"\[([^\]]{1,200})\]\([^)]{0,500}\)|`([^`<]+?)\s*<[^`>]*>`_*")
_URL = re.compile(r"<?(?:https?|ftp)://\S+|\[[\w+-]{1,12}\]_")
_QUOTES = re.compile(r"`+|\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")
_WORD = re.compile(r"""[("'“]*(?:[A-Za-z]{2,}|[aAI])(?:['’/-][A-Za-z]+)*[)"'”]*+[.,;:!?]*[)"'”]*""")
_ENGLISH = re.compile(
    r"\b(?:the|an?|of|to|is|in|and|for|if|be|with|this|that|it|or|as|by|on|are|not|from|at|when|"
    r"all|can|will|its|which|into|was|has|have|you|no|any|given|than|but|does|should|must|may)\b",
    re.IGNORECASE,
)


def docstring_sentences(docstring):
    """Returns the English sentences of a docstring.

    Doctests, code blocks, tables, headings, the names of parameters, markup, and text that is not
    mostly words are dropped.

    Args:
        docstring: str, as in the source.

    Returns:
        List of str, may be empty.
    """
    return [
        part
        for paragraph in _paragraphs(inspect.cleandoc(docstring).splitlines())
        for sentence in split_sentences(_without_markup(paragraph))
        for part in split_long(sentence)
        if is_english(part)
    ]


def is_english(sentence):
    """Returns whether a text has at least three words, most of them plain and one English."""
    words = sentence.split()
    if len(words) < 3:
        return False
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return plain >= 0.75 * len(words) and _ENGLISH.search(sentence) is not None


def _paragraphs(lines):
    """Yields runs of lines that belong together, without lines that are not prose."""
    paragraph = []
    # Inside of code: until an empty line ("doctest"), a fence ("fence"), or less indentation (int).
    skipping = None
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith(("```", "~~~")):
            skipping = None if skipping == "fence" else "fence"
            ends = True
        elif skipping == "fence":
            continue
        elif not text:
            skipping = None if skipping == "doctest" else skipping
            ends = True
        elif text.startswith(">>>"):
            skipping = "doctest"
            ends = True
        elif skipping == "doctest" or (isinstance(skipping, int) and indent > skipping):
            continue
        else:
            ends = False
            skipping = None
        if not ends and _RULE.fullmatch(text):
            paragraph = paragraph[:-1]  # the heading above a rule
            ends = True
        if not ends and _LITERAL.match(text):
            skipping = indent
        drops = text.startswith((".. ", "|", "@", "#", ":type")) or _HEADING.fullmatch(text)
        ends = ends or drops or _NUMPY_ENTRY.match(text)
        start = None if ends else (_BULLET.match(text) or _ENTRY.match(text))
        if (ends or start) and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if ends:
            continue
        if text.endswith("::"):
            skipping = indent
            text = text[:-1]
        paragraph.append(text[start.end() :] if start else text)
    if paragraph:
        yield " ".join(paragraph)


def _without_markup(text):
    text = _ROLE.sub(r"\1", " ".join(text.split()))
    text = _LINK.sub(lambda match: match.group(1) or match.group(2), text)
    return " ".join(_QUOTES.sub("", _URL.sub("", text)).split())
