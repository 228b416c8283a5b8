"""Splitting of very long words, which would dominate the time of vocabulary training."""

import re

# In characters. The time of each merge in a word grows with the length of the word.
MAX_WORD_LENGTH = 200
# Number of characters of a longer word, such as a genome, that are used for training.
MAX_LEARNED_CHARACTERS = 10_000
_LONG_RUN = re.compile(rf"(?<!\S)\S{{{MAX_WORD_LENGTH + 1},}}|(?<!\s)\s{{{MAX_WORD_LENGTH + 1},}}")


def cut_long_words(texts):
    """Splits texts inside words, or whitespace, of more than `MAX_WORD_LENGTH` characters.

    Args:
        texts: Iterable of str.

    Yields:
        The texts. A text with a long word is split into several; of the word, only the first
        `MAX_LEARNED_CHARACTERS` characters are kept.
    """
    for text in texts:
        start = 0
        for run in _LONG_RUN.finditer(text) if len(text) > MAX_WORD_LENGTH else ():
            cuts = range(run.start() + MAX_WORD_LENGTH, run.end(), MAX_WORD_LENGTH)
            for cut in cuts[: MAX_LEARNED_CHARACTERS // MAX_WORD_LENGTH]:
                yield text[start:cut]
                start = cut
            if len(cuts) > MAX_LEARNED_CHARACTERS // MAX_WORD_LENGTH:
                start = run.end()
        yield text[start:]
