"""Masked-LM targets: selection of tokens (single, whole words or spans) and their replacement.

The random numbers of a row depend on the seed and on the index of the row alone.
"""

import numpy as np

# SpanBERT: probability that a span ends after each word, and its maximum length in words.
_SPAN_STOP, _SPAN_WORDS = 0.2, 10
_XLNET_WORDS = 5


class Masker:
    """Selects tokens to predict and masks them, as BERT does.

    In each row, `round(fraction * tokens)` tokens (including special tokens; at least 1, at most
    `max_predictions`) are predicted: by default 80 % of them are replaced by [MASK], 10 % by a
    random token, and 10 % are kept. Special tokens are neither predicted nor used as random tokens.

    Args:
        tokenizer: `WordPieceTokenizer`; provides the token ids and the continuation tokens.
        length: Length of a row.
        max_predictions: Number of prediction slots per row.
        fraction: Fraction of tokens to predict.
        whole_words: Predicts either all tokens of a word or none. Words that exceed the remaining
            number of predictions are skipped.
        spans: Predicts spans of whole words. All tokens of a span are replaced in the same way.
        lengths: Function that maps uniform numbers in (0, 1) to span lengths in words.
        fill: With `spans`, whether to predict single tokens once no whole word fits any more, as in
            text without spaces.
        mask_rate: Fraction of the predicted tokens that are replaced by [MASK]; 1 in ELECTRA.
        random_rate: Fraction of the predicted tokens that are replaced by a random token.

    Reference:
        Devlin et al., BERT, 2018, section 3.1, task 1. Joshi et al., SpanBERT, 2020, section 3.1.
        `fill`: zihangdai/xlnet, data_utils.py.
    """

    def __init__(
        self,
        tokenizer,
        *,
        length,
        max_predictions,
        fraction=0.15,
        whole_words=False,
        spans=False,
        lengths=None,
        fill=False,
        mask_rate=0.8,
        random_rate=0.1,
    ):
        self.length = length
        self.max_predictions = max_predictions
        self.fraction = fraction
        self.whole_words = whole_words
        self.spans = spans
        self.lengths = lengths or spanbert_lengths
        self.fill = fill
        self.mask_rate = mask_rate
        self.random_rate = random_rate
        self.mask_id = tokenizer.mask_id
        size = tokenizer.vocabulary_size
        self.ordinary = np.ones(size, bool)
        self.ordinary[np.asarray(tokenizer.special_ids)] = False
        self.ordinary_ids = np.flatnonzero(self.ordinary).astype(np.int32)
        self.continuation = np.asarray(tokenizer.continuation, bool)
        self._key_words = -(-length // 2)
        # Philox generates blocks of four 64-bit numbers; each row uses whole blocks.
        self._words = self._key_words + max_predictions
        self._blocks = -(-(self._words + self._key_words * (spans + (spans and fill))) // 4)
        self._column_bits = max(1, (length - 1).bit_length())

    def max_masked(self, length, examples):
        """Returns the maximum number of predictions in examples with `length` tokens in total."""
        tokens = np.arange(3, length + 1)  # at least [CLS], a token and [SEP]
        above = np.max(self._budget(tokens, self.fraction) - self.fraction * tokens)
        most = min(examples * self.max_predictions, length)
        return max(1, min(most, int(self.fraction * length + examples * max(above, 0.0) + 1e-6)))

    def _budget(self, tokens, fraction):
        budget = np.maximum(np.rint(tokens * fraction).astype(np.int64), 1)
        return np.minimum(budget, self.max_predictions)

    def __call__(self, token_ids, tokens, seed, first_row, fractions=None):
        """Masks rows `first_row`, `first_row + 1`, … of the stream of `seed`.

        Args:
            token_ids: `(B, T)` int32; not modified.
            tokens: `(B,)`, number of real tokens in each row.
            seed: `np.random.SeedSequence` of the stream.
            first_row: Number of the first row in the stream. The mask of a row does not depend on
                the other rows of the batch.
            fractions: `(B,)`, fractions of the tokens to predict in each row, at most `fraction`;
                None: `fraction` in all rows.

        Returns:
            Dictionary of `token_ids (B, T)`, `mask_positions (B, P)` in ascending order,
            `mask_ids (B, P)` (int32, 0 for unused slots) and `mask_weights (B, P)` float32.
        """
        batch = len(token_ids)
        random = np.random.Philox(seed)
        random.advance(first_row * self._blocks)
        random = random.random_raw(batch * self._blocks * 4).reshape(batch, self._blocks * 4)
        keys = random[:, : self._key_words].view(np.uint32)[:, : self.length]

        real = np.arange(self.length) < tokens[:, None]
        candidates = self.ordinary[token_ids] & real
        budget = self._budget(tokens, self.fraction if fractions is None else fractions)
        spans = None
        if self.spans:
            drawn = random[:, self._words :].view(np.uint32)
            lengths, more = drawn[:, : self.length], drawn[:, 2 * self._key_words :]
            spans, left = self._choose_spans(token_ids, candidates, budget, keys, lengths)
            if self.fill and left.any():
                single = self._choose(candidates & (spans < 0), left, more[:, : self.length])
                spans = np.where(single, np.arange(self.length), spans)
            chosen = spans >= 0
        elif self.whole_words:
            chosen = self._choose_words(token_ids, candidates, budget, keys)
        else:
            chosen = self._choose(candidates, budget, keys)

        row, column = np.divmod(np.flatnonzero(chosen), self.length)
        counts = np.bincount(row, minlength=batch)
        slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        original = token_ids[row, column]
        masked = token_ids.copy()
        numbers = random[row, self._key_words + slot]
        replacements = numbers
        if spans is not None:  # the first token determines the replacement of its span
            _, first = np.unique(row * self.length + spans[row, column], return_index=True)
            replacements = np.repeat(numbers[first], np.diff(first, append=len(row)))
        masked[row, column] = self._replace(original, numbers, replacements)
        positions = np.zeros((batch, self.max_predictions), np.int32)
        positions[row, slot] = column
        ids = np.zeros_like(positions)
        ids[row, slot] = original
        weights = np.zeros(positions.shape, np.float32)
        weights[row, slot] = 1.0
        return {
            "token_ids": masked,
            "mask_positions": positions,
            "mask_ids": ids,
            "mask_weights": weights,
        }

    def _sortable(self, keys, candidates):
        """Returns random keys with their column in the low bits; other columns sort last."""
        low = np.uint32((1 << self._column_bits) - 1)
        keys = (keys & ~low) | np.arange(self.length, dtype=np.uint32)
        return np.where(candidates, keys, np.uint32(0xFFFFFFFF))

    def _choose(self, candidates, budget, keys):
        keys = self._sortable(keys, candidates)
        last = np.sort(keys, axis=1)[np.arange(len(keys)), np.minimum(budget, self.length) - 1]
        return (keys <= last[:, None]) & candidates & (budget > 0)[:, None]

    def _word_starts(self, token_ids, candidates):
        """Returns the first column of the word of each token."""
        # Neither a special token continues a word, nor a token after one, e.g. after truncation.
        follows = self.continuation[token_ids] & candidates
        follows[:, 1:] &= candidates[:, :-1]
        return np.maximum.accumulate(np.where(follows, 0, np.arange(self.length)), axis=1)

    def _choose_spans(self, token_ids, candidates, budget, keys, drawn):
        """Chooses one span of words at a time in each row; spans do not overlap.

        A span that exceeds the budget is truncated after a word.

        Returns:
            (first column of the span of each token, -1 outside of spans; remaining budgets).
        """
        columns = np.arange(self.length)
        start = self._word_starts(token_ids, candidates)
        first = (start == columns) & candidates
        order = np.sort(self._sortable(keys, first), axis=1) & ((1 << self._column_bits) - 1)
        words = np.count_nonzero(first, axis=1)
        lengths = self.lengths((drawn + 0.5) * 2.0**-32)
        number = np.cumsum(first, axis=1)  # number of the word of each token, from 1
        # A span ends before the next special token.
        segment = np.cumsum(~candidates, axis=1)
        spans, left = np.full(token_ids.shape, -1), budget.copy()
        rows = np.arange(len(keys))
        ends = np.ones_like(first)  # where a word ends
        ends[:, :-1] = start[:, 1:] == columns[1:]
        for rank in range(words.max(initial=0)):
            at = np.minimum(order[:, rank], self.length - 1).astype(np.int64)
            word = number[rows, at][:, None]
            inside = (number >= word) & (number < word + lengths[rows, at][:, None]) & candidates
            inside &= segment == segment[rows, at][:, None]
            inside &= ((rank < words) & (left > 0))[:, None]
            inside &= np.logical_and.accumulate((spans < 0) | (columns < at[:, None]), axis=1)
            # Keep whole words that fit the budget, which is checked at their last token.
            total = np.cumsum(inside, axis=1)
            fits = np.where(inside & ends & (total <= left[:, None]), total, 0).max(axis=1)
            inside &= total <= fits[:, None]
            spans[inside] = np.broadcast_to(at[:, None], spans.shape)[inside]
            left -= fits
            if not left.any():
                break
        return spans, left

    def _choose_words(self, token_ids, candidates, budget, keys):
        start = self._word_starts(token_ids, candidates)
        flat = start + np.arange(len(keys))[:, None] * self.length
        sizes = np.bincount(flat[candidates], minlength=flat.size).reshape(flat.shape)

        order = np.sort(self._sortable(keys, sizes > 0), axis=1) & ((1 << self._column_bits) - 1)
        order = np.minimum(order, self.length - 1).astype(np.int64)
        words = np.count_nonzero(sizes, axis=1)
        sizes = np.take_along_axis(sizes, order, axis=1)
        # Greedy selection, vectorized over the rows: one word per row at a time.
        left, accepted = budget.copy(), np.zeros(flat.shape, bool)
        for rank in range(words.max(initial=0)):
            fits = (sizes[:, rank] <= left) & (rank < words)
            accepted[:, rank] = fits
            left -= sizes[:, rank] * fits
            if not left.any():
                break
        picked = np.zeros(flat.shape, bool)
        row, rank = np.nonzero(accepted)
        picked[row, order[row, rank]] = True
        return picked.reshape(-1)[flat] & candidates

    def _replace(self, original, random, replacements):
        low, high = random & np.uint64(0xFFFFFFFF), replacements >> np.uint64(32)
        result = original.copy()
        probability = high.astype(np.float64) * 2.0**-32
        result[probability < self.mask_rate] = self.mask_id
        drawn = np.flatnonzero(probability >= 1 - self.random_rate)
        if len(self.ordinary_ids):
            which = (low[drawn] * np.uint64(len(self.ordinary_ids))) >> np.uint64(32)
            result[drawn] = self.ordinary_ids[which.astype(np.int64)]
        return result


def spanbert_lengths(uniform):
    """Samples span lengths in words from a geometric(0.2) distribution truncated at ten words.

    See Joshi et al., SpanBERT, 2020, section 3.1; the mean is 3.8.

    Args:
        uniform: Array of uniform numbers in (0, 1).
    """
    p_continue = 1 - _SPAN_STOP
    # P(length <= k) = (1 - p_continue^k) / (1 - p_continue^10).
    lengths = np.log1p(-uniform * (1 - p_continue**_SPAN_WORDS)) / np.log(p_continue)
    return lengths.astype(np.int64) + 1


def xlnet_lengths(uniform):
    """Samples span lengths of one to five words, n with probability proportional to 1 / n.

    See zihangdai/xlnet, data_utils.py; the mean is 2.2.

    Args:
        uniform: Array of uniform numbers in (0, 1).
    """
    cumulative = np.cumsum(1 / np.arange(1, _XLNET_WORDS + 1))
    return 1 + np.searchsorted(cumulative[:-1] / cumulative[-1], uniform, side="right")
