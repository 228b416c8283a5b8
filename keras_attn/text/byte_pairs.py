"""GPT-2's tokenizer: byte-level byte-pair encoding (BPE)."""

import hashlib
import json
import posixpath
import re

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.io.json_files import read_object
from keras_attn.text.long_words import cut_long_words
from keras_attn.text.row_layout import RowLayout

END_OF_TEXT = "<|endoftext|>"
# Names of the vocabulary and merges files: of transformers and of openai/gpt-2.
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_TITLE = "#version: 0.2"
_CHUNK = 10_000  # texts
_PRINTABLE = *range(33, 127), *range(161, 173), *range(174, 256)
# Code points of a token to bytes: printable bytes represent themselves, others start at U+0100.
_BYTES = {256 + number: byte for number, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))}

_CHARACTERS = {byte: chr(code) for code, byte in _BYTES.items()}


class BytePairTokenizer:
    """Tokenizes any text without loss, byte for byte, as openai/gpt-2 does.

    Special tokens in text are not recognized: `<|endoftext|>` is split like any other text. A
    subclass may have other `SPECIAL_TOKENS`.

    Args:
        vocabulary: List of str; the index of a token is its id. Bytes are written as printable
            characters.
        merges: List of pairs of tokens, in the order in which they are merged.
        name: Name of the vocabulary in error messages.
        append_eos: Whether the texts of a classifier end with `<|endoftext|>`.

    Attributes:
        vocabulary: As given.
        vocabulary_size: Number of tokens.
        merges: As given.
        append_eos: As given.
        num_padding_rows: Number of `padding_row_name` entries at the end of a padded vocabulary.
        never_generated: Ids of these entries, which generated texts must not contain.
        end_id: Id of `<|endoftext|>`, which separates texts.
        unk_id: None: there is no unknown token.
        lowercase: False.
        verbatim: True: documents are raw text.
        recipe: See `keras_attn.text.tokenizer_types`.
        sha256: Hash of vocabulary and merges.

    Raises:
        UserError: If the vocabulary lacks a byte, `<|endoftext|>` or a token of a merge.

    Reference:
        Radford et al., Language Models are Unsupervised Multitask Learners, 2019, section 2.2.
    """

    unk_id, lowercase, verbatim = None, False, True
    SPECIAL_TOKENS: tuple[str, ...] = (END_OF_TEXT,)

    def __init__(self, vocabulary, merges, name="the vocabulary", append_eos=True):
        import tokenizers

        self.vocabulary = list(vocabulary)
        self.merges = [tuple(pair) for pair in merges]
        self.vocabulary_size = len(self.vocabulary)
        self.append_eos = append_eos
        self.ids = ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        if error := self._find_error(ids):
            raise UserError(
                "A BPE vocabulary must contain all bytes, "
                f"{', '.join(self.SPECIAL_TOKENS)} and the tokens of all merges, each once. "
                f"Received: {name} with {error}"
            )
        self.end_id = ids.get(END_OF_TEXT)
        size = self.vocabulary_size
        while self.vocabulary[size - 1] == padding_row_name(size - 1):
            size -= 1
        self.num_padding_rows = self.vocabulary_size - size
        self.never_generated = range(size, self.vocabulary_size)
        content = "\n".join([*self.vocabulary, "", *map(" ".join, self.merges)])
        self.sha256 = hashlib.sha256(content.encode()).hexdigest()
        self._tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, self.merges))
        self._tokenizer.pre_tokenizer = _byte_level()
        self._tokenizer.decoder = tokenizers.decoders.ByteLevel()

    def _find_error(self, ids):
        """Returns what is wrong with the vocabulary or the merges, or None."""
        needed = [*self.SPECIAL_TOKENS, *byte_alphabet()]
        for pair in self.merges:
            needed += (*pair, "".join(pair))
        missing = [piece for piece in needed if piece not in ids]
        if missing:
            return f"no {missing[0]!r}"
        if len(ids) < len(self.vocabulary):
            return "a duplicate token"
        # In a merges file, a space separates the two tokens.
        spaces = [piece for pair in self.merges for piece in pair if " " in piece]
        if spaces:
            return f"a merge of {spaces[0]!r}, which contains a space"
        try:
            "".join(ids).encode()
        except UnicodeEncodeError:
            return "an unpaired surrogate"
        return None

    @property
    def row_layout(self):
        """text <|endoftext|>, or text <|endoftext|> text <|endoftext|>, padded with <|endoftext|>.

        Without `append_eos`: text, or text text; an empty row has one <|endoftext|>.
        """
        end = (self.end_id,) if self.append_eos else ()
        return RowLayout((), end, end, self.end_id)

    @property
    def recipe(self):
        return {"kind": "bpe", "vocabulary": self.vocabulary, "merges": self.merges}

    @classmethod
    def read(cls, folder):
        """Reads the tokenizer from a folder; see `read_files`."""
        return cls(*read_files(folder), folder)

    def can_occur_in_text(self, number):
        """Whether texts may contain the token of an id: a byte or the result of a merge."""
        piece = self.vocabulary[number]
        return piece in byte_alphabet() or any("".join(pair) == piece for pair in self.merges)

    def to_json(self):
        """Returns the tokenizer in the format of the `tokenizers` library."""
        return self._tokenizer.to_str()

    @property
    def added_tokens(self):
        """The last tokens of the vocabulary that cannot occur in text, except `SPECIAL_TOKENS`."""
        joined = {*byte_alphabet(), *map("".join, self.merges), *self.SPECIAL_TOKENS}
        last = max(n for n, piece in enumerate(self.vocabulary) if piece in joined)
        return self.vocabulary[last + 1 :]

    def without_padding_rows(self):
        """Returns this tokenizer without the padding of its vocabulary."""
        tokens = self.vocabulary[: self.vocabulary_size - self.num_padding_rows]
        return type(self)(tokens, self.merges, append_eos=self.append_eos)

    def write(self, folder, names=FILES[0], title=_TITLE):
        """Writes vocabulary and merges, each atomically.

        Args:
            folder: The folder.
            names: Names of the two files.
            title: First line of the merges file; "" for none.
        """
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        lines = [*filter(None, [title]), *map(" ".join, self.merges), ""]
        for name, text in zip(
            names, (json.dumps(ids, ensure_ascii=False), "\n".join(lines)), strict=True
        ):
            atomic_write(posixpath.join(str(folder), name), text.encode())

    def encode(self, texts, threads=None):
        """Tokenizes texts.

        Args:
            texts: List of str.
            threads: Unused; the library uses all cores.

        Returns:
            (ids, ends): int32 ids of all texts, concatenated, and int64 `(N,)`, the end of each
            text.
        """
        flat, lengths = [np.zeros(0, np.int32)], []
        for start in range(0, len(texts), _CHUNK):
            rows = self._tokenizer.encode_batch_fast(list(texts[start : start + _CHUNK]))
            lengths += map(len, rows)
            flat += [np.array(row.ids, np.int32) for row in rows]
        return np.concatenate(flat), np.cumsum(lengths, dtype=np.int64)

    def decode(self, rows):
        """Detokenizes token ids.

        Args:
            rows: List of lists or arrays of integers.

        Returns:
            List of strings; bytes that are not valid UTF-8 become U+FFFD.
        """
        return self._tokenizer.decode_batch(
            [np.asarray(row).tolist() for row in rows], skip_special_tokens=False
        )

    def byte_id(self, byte):
        """Returns the id of the token of one byte, 0 to 255."""
        return self.ids[_CHARACTERS.get(byte, chr(byte))]

    def to_bytes(self, ids):
        """Returns the bytes of tokens, which may be parts of characters.

        Args:
            ids: List or array of integers.
        """
        pieces = "".join([self.vocabulary[number] for number in ids])
        return pieces.translate(_BYTES).encode("latin-1", "replace")


def padding_row_name(number):
    """Returns the placeholder for a row of the embedding matrix without a token."""
    return f"[row {number}]"


def read_files(folder, files=FILES):
    """Reads vocab.json and merges.txt, or encoder.json and vocab.bpe, from a folder.

    Args:
        folder: The folder.
        files: Pairs of file names to look for.

    Returns:
        (vocabulary, merges), the first two arguments of `BytePairTokenizer`.

    Raises:
        UserError: If the files are missing or invalid.
    """
    for names in files:
        vocabulary, merges = (posixpath.join(str(folder), name) for name in names)
        if gfile.exists(vocabulary) and gfile.exists(merges):
            break
    else:
        raise UserError(f"The folder must contain {' and '.join(files[0])}. Received: {folder}")
    ids = read_object(vocabulary)
    pieces = sorted(ids, key=lambda piece: ids[piece] if type(ids[piece]) is int else -1)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError(
            "A vocabulary file must be a JSON object that maps tokens to the ids 0, 1, "
            f"2, …. Received: other ids in {vocabulary}"
        )
    content = read_bytes(merges)
    try:
        # Tokens contain no line breaks, as bytes are written as printable characters.
        lines = re.split("\r\n?|\n", content.decode("utf-8-sig"))
    except ValueError as error:
        raise UserError(f"Cannot read {merges}: it is not UTF-8 text") from error
    lines = lines[1:] if lines[0].startswith("#version") else lines
    pairs = [tuple(line.split(" ")) for line in lines if line.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise UserError(
            "Each line of a merges file must hold two tokens. "
            f"Received: {merges} with a different line"
        )
    if missing := _unreachable(pieces, pairs):
        raise UserError(
            f"{merges} is incomplete or belongs to another model: no merge yields {missing[0]!r}"
            + (f" and {counted(len(missing) - 1, 'more token')}" if len(missing) > 1 else "")
            + f" of {names[0]}. Copy both files again"
        )
    return pieces, pairs


def _unreachable(pieces, pairs):
    """Returns the tokens that cannot occur in text, although they do not look like added tokens.

    Added tokens are in brackets or follow `<|endoftext|>` at the end of the vocabulary.
    """
    reachable = {*byte_alphabet(), *map("".join, pairs)}
    last = max((n for n, piece in enumerate(pieces) if piece in reachable), default=-1)
    end = pieces.index(END_OF_TEXT) if END_OF_TEXT in pieces else -1
    text = pieces[:end] if end > last else pieces
    return [
        piece
        for piece in text
        if piece not in reachable and not re.fullmatch(r"<.*>|\[.*\]", piece, re.DOTALL)
    ]


def train_byte_pairs(texts, size):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Maximum vocabulary size, including the 256 bytes and `<|endoftext|>`, the last token.

    Returns:
        A `BytePairTokenizer`.

    Raises:
        UserError: If `size` is too small for these.
    """
    pieces, merges = learn_merges(texts, size, (END_OF_TEXT,))
    return BytePairTokenizer([*pieces, END_OF_TEXT], merges)


def learn_merges(texts, size, special_tokens):
    """Learns the tokens and merges of byte-level BPE.

    Args:
        texts: Iterable of str.
        size: Maximum vocabulary size, including the 256 bytes and the special tokens.
        special_tokens: Tuple of tokens that the caller adds.

    Returns:
        (tokens, merges), without the special tokens.

    Raises:
        UserError: If `size` is too small for these.
    """
    import tokenizers

    alphabet = byte_alphabet()
    least = len(alphabet) + len(special_tokens)
    if size < least:
        raise UserError(
            f"vocab_size must be at least {least} for BPE: all bytes and "
            f"{', '.join(special_tokens)}. Received: vocab_size={size}"
        )
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = _byte_level()
    trained.train_from_iterator(
        cut_long_words(texts),
        tokenizers.trainers.BpeTrainer(
            vocab_size=size - len(special_tokens),
            min_frequency=2,
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    model = json.loads(trained.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    return pieces, pairs


def _byte_level():
    import tokenizers

    return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)


def byte_alphabet():
    """Returns the characters that represent the 256 bytes, sorted."""
    import tokenizers

    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
