"""WordPiece vocabulary files: reading, writing and training."""

import hashlib
from collections import Counter

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words

FILE = "vocab.txt"
MAX_TOKEN_BYTES = 256  # limit of TensorFlow Text, without ##
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_vocabulary(path):
    """Reads a vocabulary file with one token per line; the id of a token is its line number from 0.

    Args:
        path: A UTF-8 file in the format of BERT's `vocab.txt`.

    Returns:
        A list of str.

    Raises:
        UserError: If the file is missing or not UTF-8, lacks one of BERT's five special tokens, or
            has an empty or duplicate line.
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(
            f"The vocabulary must be UTF-8 text. Received: {path}, line {line}"
        ) from error
    # Not str.splitlines, which would also split at tokens such as U+2028.
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines[-1] == "":
        lines.pop()
    check_vocabulary(lines, path)
    return lines


def write_vocabulary(path, vocabulary):
    """Writes a vocabulary file for `read_vocabulary` atomically.

    Raises:
        UserError: If it cannot be written (no space, no permission).
    """
    atomic_write(path, "".join(f"{piece}\n" for piece in vocabulary).encode())


def check_vocabulary(vocabulary, name="vocabulary"):
    """Raises UserError unless tokens are valid and unique and all special tokens exist.

    Args:
        vocabulary: List of str.
        name: Name of the vocabulary in error messages: the path of its file.
    """
    first = {}
    for line, piece in enumerate(vocabulary, start=1):
        if not piece.strip(" \t"):  # other whitespace, such as U+2028, can be a token
            raise UserError(
                f"{name}, line {line} is empty. Each line of a vocabulary must hold one token"
            )
        if piece in first:
            raise UserError(
                f"{name}, lines {first[piece]} and {line} are both {piece!r}. The "
                "tokens of a vocabulary must be unique"
            )
        if error := _token_error(piece):
            raise UserError(
                f"{name}, line {line} {error}. A token must be text of at most "
                f"{MAX_TOKEN_BYTES} bytes"
            )
        first[piece] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first]
    if missing:
        raise UserError(
            f"{name} lacks {' '.join(missing)}. A BERT vocabulary must contain "
            f"{' '.join(SPECIAL_TOKENS)}"
        )


def _token_error(piece):
    """Returns why a token is invalid, or None if it is valid."""
    if "\0" in piece:
        return "contains a NUL character"
    try:
        size = len(piece.removeprefix("##").encode())
    except UnicodeEncodeError:
        return "contains an unpaired surrogate"
    return f"has {size:,} bytes" if size > MAX_TOKEN_BYTES else None


def vocabulary_sha256(vocabulary):
    """Returns the SHA-256 of the vocabulary file as a hexadecimal string."""
    return hashlib.sha256("".join(f"{piece}\n" for piece in vocabulary).encode()).hexdigest()


def train_vocabulary(texts, size, lowercase=True, min_frequency=2):
    """Trains a WordPiece vocabulary.

    The result does not depend on the order of the texts.

    Args:
        texts: Iterable of str; held in memory.
        size: Maximum vocabulary size, including special tokens. At most an eighth of it is used for
            single characters; the rarest ones are left out.
        lowercase: Whether the tokenizer lower-cases text and strips accents.
        min_frequency: Minimum frequency of a pair of tokens that are merged.

    Returns:
        List of str: BERT's five special tokens, characters that start a word, characters that
        continue one (`##a`), then longer tokens in descending order of frequency. Shorter than
        `size` if the texts do not contain enough subwords.

    Raises:
        UserError: If the texts contain no words, or `size` leaves no room for characters.
    """
    from tokenizers import BertWordPieceTokenizer

    if size < 16 * len(SPECIAL_TOKENS):
        raise UserError(
            f"The vocabulary size must be at least {16 * len(SPECIAL_TOKENS)}. "
            f"Received: size={size}"
        )
    texts = list(cut_long_words(texts))
    trainer = BertWordPieceTokenizer(lowercase=lowercase, strip_accents=lowercase)
    characters, continuing = _alphabet(texts, trainer, limit=size // 8)
    if not characters:
        raise UserError("Training a vocabulary requires text. Received: no words")
    # The trainer numbers characters in hash table order and breaks ties by these numbers, so two
    # runs would differ. Passing the characters as special tokens fixes their numbers.
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
    return [piece for piece in sorted(ids, key=ids.get) if not _token_error(piece)]


def _alphabet(texts, tokenizer, limit):
    """Returns the most frequent characters, sorted, and those of them that can continue a word."""
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
    joined = [len(tokenizer.pre_tokenizer.pre_tokenize_str(f"a{c}a")) == 1 for c in characters]
    return characters, [c for c, inside in zip(characters, joined, strict=True) if inside]
