"""Splitting of paragraphs into sentences, by rule."""

import re

# A sentence mark with what closes after it, then space and something that can start a sentence.
# It begins with the marks alone, for which alone Python's `re` searches fast; the first of several
# is found by looking back.
_END = re.compile(
    r"""(?s)[.!?…。！？](?:"""
    r"""(?<=[.!?…])(?<![.!?…].)[.!?…]*["'”’)\]»*_]*\s+(?=["'“‘(\[«*_—-]*[^\W_a-z])|"""
    r"""(?<=[。！？])(?<![。！？].)[。！？]*["'”’」』）]*\s*)"""
)
_WORD = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]+$")
_NEVER_LAST = re.compile(
    "(?:mr|mrs|ms|dr|prof|rev|hon|st|ste|messrs|mme|mlle|capt|col|gen|lt|maj|sgt|cmdr|gov|sen|rep|"
    r"pres|supt|vs|cf|e\.g|i\.e|viz|approx|al|ca|esp|incl|resp|fig|figs|eq|eqs|sec|secs|ch|chap|"
    r"vol|vols|pp|p|ed|eds|tr|trans|op|ib|ibid|nos|mt|ft|ph\.d)",
    re.IGNORECASE,
)
_NOT_LAST_BEFORE_A_NUMBER = re.compile(
    "(?:no|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec|art|par|ref|refs|para)", re.IGNORECASE
)
_CLAUSE_END = (";", ":", ",", ")", "—", "--")


def split_sentences(paragraph):
    """Splits a paragraph into sentences.

    A sentence ends with `.`, `!`, `?` or `…` and closing quotes, if whitespace and a capital, a
    digit or a letter without case follow, and the word before is no title, initial or
    abbreviation; or with `。`, `！`, `？`.

    Args:
        paragraph: str.

    Returns:
        List of non-empty str, stripped; runs of whitespace inside stay as they are.
    """
    sentences = []
    start = 0
    for match in _END.finditer(paragraph):
        if _ends_sentence(paragraph, start, match):
            sentences.append(paragraph[start : match.end()].strip())
            start = match.end()
    sentences.append(paragraph[start:].strip())
    return [sentence for sentence in sentences if sentence]


def split_long(sentence, words=512):
    """Cuts a sentence of more than so many words into parts: where a clause ends, if that leaves
    half of them.

    Args:
        sentence: str.
        words: Most words of a part, more than 1.

    Returns:
        List of str, `[sentence]` as it is when it is short.
    """
    if len(sentence) <= 2 * words:  # cannot hold more words
        return [sentence]
    pieces = sentence.split()
    if len(pieces) <= words:
        return [sentence]
    parts = []
    while len(pieces) > words:
        clauses = (n for n in range(words, words // 2, -1) if pieces[n - 1].endswith(_CLAUSE_END))
        size = next(clauses, words)
        parts.append(" ".join(pieces[:size]))
        pieces = pieces[size:]
    return [*parts, " ".join(pieces)]


def _ends_sentence(paragraph, start, match):
    mark = paragraph[match.start() : match.end()].rstrip()
    follows = paragraph[match.end() : match.end() + 8].lstrip("\"'“‘([«*_—-")[:1]
    if follows.islower():
        return False
    if mark != ".":
        return True
    word = _WORD.search(paragraph, max(start, match.start() - 20), match.start())
    if word is None:
        return True
    word = word.group()
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    if _NEVER_LAST.fullmatch(word):
        return False
    return not (follows.isdigit() and _NOT_LAST_BEFORE_A_NUMBER.fullmatch(word))
