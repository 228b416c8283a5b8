"""GPT-2's tokenizer: pairs of bytes, joined again and again."""

import hashlib
import json
import posixpath
import re

import numpy as np
import tensorflow as tf

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.io.json_files import read_object
from keras_attn.text.long_words import cut_long_words
from keras_attn.text.row_layout import RowLayout

END_OF_TEXT = "<|endoftext|>"
# The vocabulary and the merges: of transformers and of openai/gpt-2.
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_TITLE = "#version: 0.2"
_CHUNK = 10_000  # texts
_PRINTABLE = *range(33, 127), *range(161, 173), *range(174, 256)
# The bytes that characters of a piece stand for: printable ones, and others from U+0100 on.
_BYTES = {256 + number: byte for number, byte in enumerate(sorted({*range(256)} - {*_PRINTABLE}))}


class BytePairTokenizer:
    """Turns any text into ids and back, byte for byte, as openai/gpt-2 does.

    Nothing in a text stands for a mark: `<|endoftext|>` in it is cut like any other.

    Args:
        vocabulary: List of str; a piece's id is its place. Bytes are written as the printable
            characters that stand for them.
        merges: List of pairs of pieces, the first to be joined first.
        name: What messages call them.
        end_mark: Whether a classifier's texts end in `<|endoftext|>`.

    Attributes:
        vocabulary, vocabulary_size, merges, end_mark: As given.
        unnamed: How many of the last pieces are names of `name_of_row`, which stand for nothing.
        end_id: Of `<|endoftext|>`, which is between texts.
        unk_id: None: there are no unknown pieces.
        lowercase: False.
        verbatim: True: documents are texts as they stand.
        recipe: See `keras_attn.text.recipes`.
        sha256: Of vocabulary and merges.

    Raises:
        UserError: If the vocabulary lacks a byte, `<|endoftext|>` or a piece of a merge.

    Reference:
        Radford et al., Language Models are Unsupervised Multitask Learners, 2019, section 2.2.
    """

    unk_id, lowercase, verbatim = None, False, True

    def __init__(self, vocabulary, merges, name="the vocabulary", end_mark=True):
        import tokenizers

        self.vocabulary = list(vocabulary)
        self.merges = [tuple(pair) for pair in merges]
        self.vocabulary_size = len(self.vocabulary)
        self.end_mark = end_mark
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        if fault := self._fault(ids):
            raise UserError("A vocabulary of byte pairs holds each piece once: all bytes, "
                            f"{END_OF_TEXT} and what merges join. Received: {fault} in {name}")
        self.end_id = ids[END_OF_TEXT]
        named = self.vocabulary_size
        while self.vocabulary[named - 1] == name_of_row(named - 1):
            named -= 1
        self.unnamed = self.vocabulary_size - named
        content = "\n".join([*self.vocabulary, "", *map(" ".join, self.merges)])
        self.sha256 = hashlib.sha256(content.encode()).hexdigest()
        self._tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ids, self.merges))
        self._tokenizer.pre_tokenizer = _byte_level()
        self._tokenizer.decoder = tokenizers.decoders.ByteLevel()

    def _fault(self, ids):
        """What is wrong with pieces and merges; None if nothing is."""
        needed = [END_OF_TEXT, *_alphabet()]
        for pair in self.merges:
            needed += (*pair, "".join(pair))
        missing = [piece for piece in needed if piece not in ids]
        if missing:
            return f"no {missing[0]!r}"
        if len(ids) < len(self.vocabulary):
            return "a piece twice"
        # A file of merges has a blank between the two.
        blanks = [piece for pair in self.merges for piece in pair if " " in piece]
        if blanks:
            return f"a merge of {blanks[0]!r}, with a blank,"
        try:
            "".join(ids).encode()
        except UnicodeEncodeError:
            return "half a surrogate pair"
        return None

    @property
    def row_layout(self):
        """text <|endoftext|>, or text <|endoftext|> text <|endoftext|>; rows are filled by it.

        Without `end_mark` text, or text text, and one <|endoftext|> where there is none.
        """
        end = (self.end_id,) if self.end_mark else ()
        return RowLayout((), end, end, self.end_id)

    @property
    def recipe(self):
        return {"kind": "byte_pairs", "vocabulary": self.vocabulary, "merges": self.merges}

    @classmethod
    def read(cls, folder):
        """That of a folder; see `read_files`."""
        return cls(*read_files(folder), folder)

    def is_cut_into(self, number):
        """Whether texts may hold the piece of an id: it is a byte, or one that is joined."""
        piece = self.vocabulary[number]
        return piece in _alphabet() or any("".join(pair) == piece for pair in self.merges)

    def to_json(self):
        """What the library `tokenizers` reads."""
        return self._tokenizer.to_str()

    @property
    def added(self):
        """The last pieces, if no text is cut into them, but for the mark."""
        joined = {*_alphabet(), *map("".join, self.merges), END_OF_TEXT}
        last = max(n for n, piece in enumerate(self.vocabulary) if piece in joined)
        return self.vocabulary[last + 1:]

    def without_unnamed(self):
        """The same tokenizer, but for the names that stand for nothing."""
        named = self.vocabulary[:self.vocabulary_size - self.unnamed]
        return BytePairTokenizer(named, self.merges, end_mark=self.end_mark)

    def write(self, folder, names=FILES[0], title=_TITLE):
        """Writes vocabulary and merges, each whole or not at all.

        Args:
            folder: Where to.
            names: Of both.
            title: First line of the merges; "" for none.
        """
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        lines = [*filter(None, [title]), *map(" ".join, self.merges), ""]
        for name, text in zip(names, (json.dumps(ids, ensure_ascii=False), "\n".join(lines)),
                              strict=True):
            atomic_write(posixpath.join(str(folder), name), text.encode())

    def encode(self, texts, threads=None):
        """Token ids.

        Args:
            texts: List of str.
            threads: Not used; the library takes all cores.

        Returns:
            (ids, ends): int32 ids of all texts in a row, and int64 `(N,)`, where each text ends.
        """
        flat, lengths = [np.zeros(0, np.int32)], []
        for start in range(0, len(texts), _CHUNK):
            rows = self._tokenizer.encode_batch_fast(list(texts[start:start + _CHUNK]))
            lengths += map(len, rows)
            flat += [np.array(row.ids, np.int32) for row in rows]
        return np.concatenate(flat), np.cumsum(lengths, dtype=np.int64)

    def decode(self, rows):
        """Texts of token ids.

        Args:
            rows: List of lists or arrays of integers.

        Returns:
            List of strings; bytes that are no UTF-8 become U+FFFD.
        """
        return self._tokenizer.decode_batch([np.asarray(row).tolist() for row in rows],
                                            skip_special_tokens=False)

    def to_bytes(self, ids):
        """The bytes of pieces that texts are cut into, which may be parts of characters.

        Args:
            ids: List or array of integers.
        """
        pieces = "".join([self.vocabulary[number] for number in ids])
        return pieces.translate(_BYTES).encode("latin-1", "replace")


def name_of_row(number):
    """What a row of a token table is called that has no piece."""
    return f"[row {number}]"


def read_files(folder, files=FILES):
    """Reads vocab.json and merges.txt of a folder, or encoder.json and vocab.bpe.

    Args:
        folder: Where they are.
        files: Pairs of names to look for.

    Returns:
        (pieces, pairs), the first two arguments of `BytePairTokenizer`.

    Raises:
        UserError: If they are not there, or are something else.
    """
    for names in files:
        vocabulary, merges = (posixpath.join(str(folder), name) for name in names)
        if tf.io.gfile.exists(vocabulary) and tf.io.gfile.exists(merges):
            break
    else:
        raise UserError(f"A folder with {' and '.join(files[0])} is needed. "
                        f"Received: {folder}")
    ids = read_object(vocabulary)
    pieces = sorted(ids, key=lambda piece: ids[piece] if type(ids[piece]) is int else -1)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError("A JSON object of pieces and their ids, 0, 1, 2, …, is needed. "
                        f"Received: others in {vocabulary}")
    content = read_bytes(merges)
    try:
        # No piece holds a line end: bytes are written as printable characters.
        lines = re.split("\r\n?|\n", content.decode("utf-8-sig"))
    except ValueError as error:
        raise UserError(f"Cannot read {merges}: it is not UTF-8 text") from error
    lines = lines[1:] if lines[0].startswith("#version") else lines
    pairs = [tuple(line.split(" ")) for line in lines if line.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise UserError("Lines of two pieces are needed. "
                        f"Received: {merges} (a line is no pair)")
    if unmade := _unmade(pieces, pairs):
        raise UserError(
            f"{merges} is incomplete or belongs to another model: no merge makes {unmade[0]!r}"
            + (f" and {counted(len(unmade) - 1, 'more piece')}" if len(unmade) > 1 else "")
            + f" of {names[0]}. Copy both files again")
    return pieces, pairs


def _unmade(pieces, pairs):
    """Pieces that no text is cut into, though they do not look like added tokens.

    Added tokens are in brackets, or come last, after `<|endoftext|>`.
    """
    made = {*_alphabet(), *map("".join, pairs)}
    last = max((n for n, piece in enumerate(pieces) if piece in made), default=-1)
    end = pieces.index(END_OF_TEXT) if END_OF_TEXT in pieces else -1
    text = pieces[:end] if end > last else pieces
    return [piece for piece in text
            if piece not in made and not re.fullmatch(r"<.*>|\[.*\]", piece, re.DOTALL)]


def train_byte_pairs(texts, size):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Pieces at most, the 256 bytes and `<|endoftext|>`, which is the last, included.

    Returns:
        A `BytePairTokenizer`.

    Raises:
        UserError: If `size` has no room for these.
    """
    import tokenizers

    alphabet = _alphabet()
    if size <= len(alphabet):
        raise UserError(f"A vocabulary of byte pairs has {len(alphabet) + 1} pieces at least. "
                        f"Received: vocab_size={size}")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = _byte_level()
    trained.train_from_iterator(cut_long_words(texts), tokenizers.trainers.BpeTrainer(
        vocab_size=size - 1, min_frequency=2, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    return BytePairTokenizer([*pieces, END_OF_TEXT], pairs)


def _byte_level():
    import tokenizers

    return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)


def _alphabet():
    import tokenizers

    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
