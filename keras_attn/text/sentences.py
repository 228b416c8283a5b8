"""Rule-based sentence splitting."""

import re

# End-of-sentence punctuation and closing quotes, then whitespace and a possible sentence start. The
# pattern starts with a character class alone, as Python's `re` only searches fast for those; a
# lookbehind makes sure that it is the first of several punctuation characters.
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

    A sentence ends with `.`, `!`, `?` or `…` and optional closing quotes if they are followed by
    whitespace and a capital letter, a digit or a letter without case, and the preceding word is not
    a title, an initial or an abbreviation. A sentence also ends with `。`, `！` or `？`.

    Args:
        paragraph: str.

    Returns:
        List of non-empty str, stripped; whitespace inside sentences is kept.
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
    """Splits a sentence of too many words, after a clause if that leaves at least half of the
    words.

    Args:
        sentence: str.
        words: Maximum number of words per part, more than 1.

    Returns:
        List of str; `[sentence]` unchanged if it is short enough.
    """
    if len(sentence) <= 2 * words:  # cannot contain more words
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
