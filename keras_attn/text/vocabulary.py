"""Vocabulary files: reading, writing, and training one from text."""

import hashlib
from collections import Counter

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words

FILE = "vocab.txt"
MOST_BYTES = 256  # of a piece without ##, in TensorFlow Text
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_vocabulary(path):
    """Reads a vocabulary file: one word piece a line, its id the line's number from 0.

    Args:
        path: A UTF-8 file, as BERT's `vocab.txt`.

    Returns:
        A list of str.

    Raises:
        UserError: If the file is missing, is not UTF-8, lacks one of BERT's five special
            tokens, or has an empty or a repeated line.
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"The vocabulary must be UTF-8 text. Received: {path}, line {line}"
        ) from error
    # Not str.splitlines: word pieces such as U+2028 would end a line.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    check_vocabulary(lines, path)
    return lines


def write_vocabulary(path, vocabulary):
    """Writes a vocabulary file that `read_vocabulary` reads back, whole or not at all.

    Raises:
        UserError: If it cannot be written (no space, no permission).
    """
    atomic_write(path, "".join(f"{piece}\n" for piece in vocabulary).encode())


def check_vocabulary(vocabulary, name="vocabulary"):
    """Raises UserError unless the pieces are whole, unique, and hold the special tokens.

    Args:
        vocabulary: List of str.
        name: What the message calls the list: the path of its file.
    """
    first = {}
    for line, piece in enumerate(vocabulary, start=1):
        if not piece.strip(" \t"):  # other white space can be a piece, such as U+2028
            raise UserError(f"A vocabulary has one word piece on every line. Received: {name}, "
                            f"line {line} is empty")  # fmt: skip
        if piece in first:
            raise UserError(f"Each word piece of a vocabulary is there once. Received: {name}, "
                            f"lines {first[piece]} and {line} are both {piece!r}")  # fmt: skip
        if fault := _fault(piece):
            raise UserError(f"A word piece is text of at most {MOST_BYTES} bytes. Received: {name}"
                            f", line {line} {fault}")
        first[piece] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first]
    if missing:
        raise UserError(f"A BERT vocabulary holds {' '.join(SPECIAL_TOKENS)}. Received: {name}, "
                        f"without {' '.join(missing)}")  # fmt: skip


def _fault(piece):
    """Why the tokenizer cannot take a piece; None if it can."""
    if "\0" in piece:
        return "holds a NUL character"
    try:
        size = len(piece.removeprefix("##").encode())
    except UnicodeEncodeError:
        return "holds half a surrogate pair"
    return f"has {size:,} bytes" if size > MOST_BYTES else None


def vocabulary_sha256(vocabulary):
    """Returns the SHA-256 of the vocabulary file, as hexadecimal digits."""
    return hashlib.sha256("".join(f"{piece}\n" for piece in vocabulary).encode()).hexdigest()


def train_vocabulary(texts, size, lowercase=True, min_frequency=2):
    """Trains a WordPiece vocabulary.

    The same texts give the same vocabulary, whatever their order.

    Args:
        texts: Iterable of str; held in memory.
        size: Largest number of pieces, special tokens included. An eighth of it at most goes to
            characters, the rarest are left out.
        lowercase: Whether the tokenizer that will use it lower-cases and strips accents.
        min_frequency: How often a pair of pieces has to occur to be joined.

    Returns:
        List of str: the five special tokens as in BERT, characters that start a word, characters
        that go on one (`##a`), then longer pieces, most frequent first. Shorter than `size` if the
        texts do not hold as many.

    Raises:
        UserError: If the texts hold no word, or `size` has no room for characters.
    """
    from tokenizers import BertWordPieceTokenizer

    if size < 16 * len(SPECIAL_TOKENS):
        raise UserError(
            f"A vocabulary needs at least {16 * len(SPECIAL_TOKENS)} pieces. Received: size={size}"
        )
    texts = list(cut_long_words(texts))
    trainer = BertWordPieceTokenizer(lowercase=lowercase, strip_accents=lowercase)
    characters, continuing = _alphabet(texts, trainer, limit=size // 8)
    if not characters:
        raise UserError("Training a vocabulary needs text. Received: no words")
    # The trainer numbers characters in the order of a hash table and breaks ties by number, so that
    # two runs differ; numbering them beforehand, as if they were special, keeps it from that.
    numbered = [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in continuing)]
    trainer.train_from_iterator(
        texts,
        vocab_size=size,
        min_frequency=min_frequency,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        special_tokens=numbered,
        show_progress=False,
    )
    ids = trainer.get_vocab(with_added_tokens=True)
    return [piece for piece in sorted(ids, key=ids.get) if not _fault(piece)]


def _alphabet(texts, tokenizer, limit):
    """Returns the most frequent characters, sorted, and those of them that can go on a word."""
    raw = Counter()
    for text in texts:
        raw.update(text)
    counts = Counter()
    for character, count in raw.items():
        for folded in tokenizer.normalizer.normalize_str(character):
            if not folded.isspace():
                counts[folded] += count
    frequent = sorted(counts, key=lambda character: (-counts[character], character))[:limit]
    characters = sorted(frequent)
    whole = [len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{c}a")) == 1 for c in characters]
    return characters, [c for c, joined in zip(characters, whole, strict=True) if joined]
