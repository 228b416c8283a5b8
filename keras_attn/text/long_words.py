"""Words so long that training a vocabulary would spend its time on them."""

import re

LONGEST = 200  # characters; trainers take a word's length for each of its merges
MOST = 10_000  # characters of a longer word, such as a genome, that are learnt from
_RUN = re.compile(rf"(?<!\S)\S{{{LONGEST + 1},}}|(?<!\s)\s{{{LONGEST + 1},}}")


def cut_long_words(texts):
    """Cuts texts within words, or runs of blanks, of more than `LONGEST` characters.

    Args:
        texts: Iterable of str.

    Yields:
        The texts; one with a long word as several, without what follows its first `MOST`
        characters.
    """
    for text in texts:
        start = 0
        for run in _RUN.finditer(text) if len(text) > LONGEST else ():
            cuts = range(run.start() + LONGEST, run.end(), LONGEST)
            for cut in cuts[:MOST // LONGEST]:
                yield text[start:cut]
                start = cut
            if len(cuts) > MOST // LONGEST:
                start = run.end()
        yield text[start:]
