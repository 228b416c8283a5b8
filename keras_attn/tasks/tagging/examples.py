"""Batches of sentences: subwords of words, and windows of long sentences."""

import dataclasses

import numpy as np

from keras_attn.data.text_examples import TextExamples, TokenizedTexts


@dataclasses.dataclass(frozen=True)
class TokenizedWords:
    """Token ids of the words of sentences; each word has at least one token.

    Attributes:
        ids: Flat array of token ids.
        starts: Start of each word in `ids`, and their end, int64 `(W + 1,)`.
        bounds: Number of the first word of each sentence, and of all words, int64 `(N + 1,)`.
    """

    ids: np.ndarray
    starts: np.ndarray
    bounds: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each sentence, `(N,)`."""
        return np.diff(self.starts[self.bounds])


def tokenize_words(sentences, tokenizer):
    """Tokenizes the words of sentences, each word on its own.

    Args:
        sentences: List of lists of words.
        tokenizer: A tokenizer with a `row_layout`.
    """
    # Tokenizers that distinguish the start of a text take the space for the start of a word.
    words = [" " + word for sentence in sentences for word in sentence]
    ids, ends = tokenizer.encode(words)
    counts = np.diff(ends, prepend=0)
    if not counts.all():  # a word of control characters, for example
        missing = np.flatnonzero(counts == 0)
        unknown = getattr(tokenizer, "unk_id", None)
        filler = tokenizer.row_layout.pad_id if unknown is None else unknown
        ids = np.insert(ids, ends[missing], filler)
        counts[missing] = 1
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])])
    return TokenizedWords(np.asarray(ids, np.int32), starts, bounds.astype(np.int64))


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of sentences: words [first, last), of which [own_first, own_last) are predicted.

    Every word is predicted in exactly one window; the others are its context. The attributes are
    int64 arrays with one entry per window, in the order of the words; `owners` has the numbers of
    their sentences.
    """

    owners: np.ndarray
    first: np.ndarray
    last: np.ndarray
    own_first: np.ndarray
    own_last: np.ndarray

    def __len__(self) -> int:
        return len(self.owners)


def cut_windows(tokens: TokenizedWords, room: int, overlap: int) -> Windows:
    """Splits sentences with more than `room` tokens into windows of whole words.

    Args:
        tokens: `TokenizedWords`.
        room: Maximum number of tokens of a window. A longer word is a window of its own.
        overlap: Maximum number of tokens that consecutive windows have in common; at most half of
            `room` is used.
    """
    overlap = min(overlap, room // 2)
    rows = []
    for owner, (begin, end) in enumerate(zip(tokens.bounds[:-1], tokens.bounds[1:], strict=True)):
        cuts = list(_window_bounds(tokens.starts, begin, end, room, overlap))
        # Each word belongs to the window in which it has more context.
        middles = [(left[1] + right[0]) // 2 for left, right in zip(cuts, cuts[1:], strict=False)]
        own = zip([begin, *middles], [*middles, end], strict=True)
        rows += [(owner, *cut, *inside) for cut, inside in zip(cuts, own, strict=True)]
    return Windows(*np.array(rows, np.int64).reshape(-1, 5).T)


def _window_bounds(starts, begin, end, room, overlap):
    """Yields the first word and the end of each window of the words [begin, end)."""
    while True:
        last = int(np.searchsorted(starts, starts[begin] + room, side="right")) - 1
        last = min(max(last, begin + 1), end)
        yield begin, last
        if last == end:
            return
        shared = int(np.searchsorted(starts, starts[last] - overlap))
        begin = min(max(shared, begin + 1), last)


def sentence_examples(tokens, labels, tokenizer, *, length, windows, word_fields=None, **options):
    """Returns the `TextExamples` of sentences.

    Their batches have `word_ids`, the number of the word of each token in its sentence from 1, and
    0 for special and padding tokens. `label` is -1 except at the first token of predicted words.

    Args:
        tokens: `TokenizedWords`.
        labels: int32 class indices of all words; None for prediction.
        tokenizer: Their tokenizer.
        length: Maximum row length in tokens.
        windows: `Windows` of at most `length` tokens with special tokens.
        word_fields: Further entries of a batch by name: arrays `(W, …)` with values of all words,
            which all tokens of a word have.
        **options: Further arguments of `TextExamples`.
    """
    specials = tokenizer.row_layout.count(False)
    counts, words = np.diff(tokens.starts), np.arange(len(tokens.starts) - 1)
    word_of_token = np.repeat(words, counts)
    is_first = np.diff(word_of_token, prepend=-1) > 0
    begin, end = tokens.starts[windows.first], tokens.starts[windows.last]
    sizes = end - begin
    # The number of each token of the windows among all tokens, and of its window.
    window = np.repeat(np.arange(len(windows)), sizes)
    starts = np.cumsum(sizes) - sizes
    places = np.arange(sizes.sum()) - starts[window] + begin[window]
    word = word_of_token[places]
    fields = {"word_ids": (word - tokens.bounds[windows.owners][window] + 1).astype(np.int32)}
    if labels is not None:
        own = (word >= windows.own_first[window]) & (word < windows.own_last[window])
        labels = np.where(own & is_first[places], labels[word], -1).astype(np.int32)
    fields |= {name: values[word] for name, values in (word_fields or {}).items()}
    ids, none = tokens.ids[places], np.zeros(len(windows), np.int64)
    sizes = sizes.astype(np.int32)
    rows = TokenizedTexts(ids, starts, sizes, ids, none, np.zeros_like(sizes), sizes + specials)
    return TextExamples(
        range(len(windows)),
        None,
        None,
        tokenizer,
        length=length,
        tokens=rows,
        token_labels=labels,
        token_fields=fields,
        **options,
    )


def values_of_words(rows, windows, tokens, tokenizer):
    """Returns the values of all words from the values of tokens.

    Args:
        rows: Values of the tokens of each window: arrays `(T, …)`.
        windows: `Windows`.
        tokens: `TokenizedWords`.
        tokenizer: Their tokenizer.

    Returns:
        Array `(W, …)`: the value at the first token of each word.
    """
    before, found = len(tokenizer.row_layout.before), []
    for row, first, start, stop in zip(
        rows, windows.first, windows.own_first, windows.own_last, strict=True
    ):
        found.append(row[before + tokens.starts[start:stop] - tokens.starts[first]])
    return np.concatenate(found)
