"""RoBERTa's tokenizer: the byte-level BPE of GPT-2 with special tokens around texts."""

import numpy as np

from keras_attn.text.byte_pairs import BytePairTokenizer, byte_alphabet, learn_merges
from keras_attn.text.row_layout import RowLayout

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_SPACE = "Ġ"  # a space at the start of a token


class RobertaTokenizer(BytePairTokenizer):
    """Tokenizes any text without loss, byte for byte, as RoBERTa does in fairseq.

    A word has other tokens at the start of a text than after a space. Special tokens in text are
    not recognized: `<mask>` is split like any other text.

    Args:
        vocabulary: List of str; the index of a token is its id.
        merges: List of pairs of tokens, in the order in which they are merged.
        name: Name of the vocabulary in error messages.

    Attributes:
        cls_id: Id of `<s>`.
        pad_id: Id of `<pad>`.
        sep_id: Id of `</s>`.
        end_id: The same: the token that separates texts.
        unk_id: Id of `<unk>`, which no text is tokenized to.
        mask_id: Id of `<mask>`.
        special_ids: Ids of all tokens that cannot occur in text, sorted, int32.
        mask_token: "<mask>".
        mask_takes_space: True: whitespace before a mask token belongs to it, as the predicted token
            contains a space.
        continuation: `(vocabulary_size,)` bool, True for tokens without a space at their start,
            which continue a word.
        verbatim: False: documents are split into sentences.

    The other arguments and attributes are those of
    `keras_attn.text.byte_pairs.BytePairTokenizer`.

    Raises:
        UserError: If the vocabulary lacks a byte, a special token or a token of a merge.

    Reference:
        Liu et al., RoBERTa, 2019, section 4.4.
    """

    SPECIAL_TOKENS = SPECIAL_TOKENS
    verbatim = False
    mask_token, mask_takes_space = "<mask>", True

    def __init__(self, vocabulary, merges, name="the vocabulary"):
        import tokenizers

        super().__init__(vocabulary, merges, name)
        self.cls_id, self.pad_id, self.sep_id, self.unk_id, self.mask_id = (
            self.ids[token] for token in SPECIAL_TOKENS
        )
        self.end_id = self.sep_id
        in_text = {*byte_alphabet(), *map("".join, self.merges)}
        special = [number for piece, number in self.ids.items() if piece not in in_text]
        self.special_ids = np.sort(np.array(special, np.int32))
        self.continuation = np.array(
            [piece in in_text and not piece.startswith(_SPACE) for piece in self.vocabulary]
        )
        # Spans of tokens do not contain the spaces before a word.
        self._tokenizer.post_processor = tokenizers.processors.ByteLevel(
            add_prefix_space=False, trim_offsets=True
        )

    @property
    def row_layout(self):
        """<s> text </s>, or <s> text </s></s> text </s>."""
        return RowLayout((self.cls_id,), (self.sep_id, self.sep_id), (self.sep_id,), self.pad_id)

    @property
    def recipe(self):
        return {**super().recipe, "kind": "roberta_bpe"}

    def without_padding_rows(self):
        tokens = self.vocabulary[: self.vocabulary_size - self.num_padding_rows]
        return RobertaTokenizer(tokens, self.merges)

    def surface(self, piece):
        """Returns the text of a token, without a preceding space.

        A character of several tokens counts in the first one.
        """
        content = self.to_bytes([self.ids[piece]]).removeprefix(b" ")
        while content and content[0] & 0xC0 == 0x80:  # the rest of a character
            content = content[1:]
        return content.decode("utf-8", "replace")

    def in_graph(self):
        """Returns a function from strings `(N,)` to ragged ids, for a SavedModel."""
        from keras_attn.text.byte_pairs_graph import BytePairGraph

        return BytePairGraph(self)

    def encode_with_spans(self, texts):
        """Tokenizes a list of texts, and returns the character span of each token.

        Spaces before a word do not belong to the span of its token. All tokens of a character have
        its span.

        Args:
            texts: List of str.

        Returns:
            (ids, ends, spans): ids and ends as for `encode`; spans int64 `(tokens, 2)`, the start
            and the exclusive end of each token in its text, in characters.
        """
        rows = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ids = [np.zeros(0, np.int32), *(np.array(row.ids, np.int32) for row in rows)]
        spans = [np.array(row.offsets, np.int64).reshape(-1, 2) for row in rows]
        return (
            np.concatenate(ids),
            np.cumsum([len(row) for row in rows], dtype=np.int64),
            np.concatenate([np.zeros((0, 2), np.int64), *spans]),
        )


def train_roberta_byte_pairs(texts, size):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Maximum vocabulary size, including the 256 bytes and the special tokens.

    Returns:
        A `RobertaTokenizer`.

    Raises:
        UserError: If `size` is too small for these.
    """
    *first, last = SPECIAL_TOKENS  # in the order of the released vocabulary
    pieces, merges = learn_merges(texts, size, SPECIAL_TOKENS)
    return RobertaTokenizer([*first, *pieces, last], merges)
