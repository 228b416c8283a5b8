"""SentencePiece tokenizers in folders of other libraries, as those of XLNet.

A folder has spiece.model, or tokenizer.json, or both.
"""

import base64
import os
import struct
from reprlib import repr as shorten

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_object
from keras_attn.text.sentence_pieces import FILE, SPECIAL_TOKENS, UNKNOWN, SentencePieceTokenizer

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
# Of sentencepiece_model.proto: https://github.com/google/sentencepiece. Its module for Python needs
# a newer protobuf than some TensorFlow has.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_UNIGRAM = 1
# What is done to text, besides what `_model_of` names.
_QUOTES = [
    {"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")
]
_BLANKS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def read_tokenizer(folder, rows, lowercase):
    """Reads spiece.model, or makes it of tokenizer.json; both must have the same pieces.

    Args:
        folder: Of a model.
        rows: Of its token table.
        lowercase: Whether text is lower-cased; None: tokenizer.json may say it.

    Returns:
        (a `SentencePieceTokenizer`, or None if the folder has none; `lowercase`, or what was said).

    Raises:
        UserError: For another tokenizer than XLNet's, and one that has not a piece for each row.
    """
    path, made = os.path.join(folder, TOKENIZER), None
    if os.path.isfile(path):
        model, lowers = _model_of(read_object(path), path)
        if lowercase not in (None, lowers):
            raise UserError(
                f"A tokenizer must lower-case text or not. Received: {lowers} in {path}"
                f", {lowercase} in another file or by you"
            )
        made, lowercase = SentencePieceTokenizer(model, lowers, path), lowers
    tokenizer = made
    if os.path.isfile(os.path.join(folder, FILE)):
        tokenizer = SentencePieceTokenizer.read(folder, bool(lowercase))
    if tokenizer is None:
        return None, lowercase
    if made and made.vocabulary != tokenizer.vocabulary:
        raise UserError(
            f"{TOKENIZER} and {FILE} must hold the same pieces. Received: others in {folder}"
        )
    if tokenizer.vocabulary_size != rows:
        raise UserError(
            "The vocabulary must have a piece for each row of the token table. "
            f"Received: {counted(tokenizer.vocabulary_size, 'piece')}, "
            f"{counted(rows, 'row')} in {folder}"
        )
    return tokenizer, lowercase


def _model_of(found, path):
    """(bytes of a sentencepiece model, whether text is lower-cased) of a tokenizer.json."""
    steps = _steps(found.get("normalizer"), "normalizers")
    lowers = {"type": "Lowercase"} in steps
    maps = [step for step in steps if _type(step) == "Precompiled"]
    wanted = [
        *_QUOTES,
        {"type": "NFKD"},
        {"type": "StripAccents"},
        *[{"type": "Lowercase"}] * lowers,
        *maps[:1],
    ]
    before = _steps(found.get("pre_tokenizer"), "pretokenizers")
    model = found.get("model")
    model = model if isinstance(model, dict) else {}
    for name, value, right in (
        ("model.type", model.get("type"), model.get("type") == "Unigram"),
        ("model.byte_fallback", model.get("byte_fallback"), not model.get("byte_fallback")),
        ("normalizer", steps, [step for step in steps if step != _BLANKS] == wanted),
        (
            "pre_tokenizer",
            before,
            [_type(one) for one in before] in (["Metaspace"], ["WhitespaceSplit", "Metaspace"])
            and _is_before_words(before[-1]),
        ),
    ):
        if not right:
            raise UserError(
                "A tokenizer must be sentencepiece's, as XLNet's. "
                f"Received: {name}={shorten(value)} in {path}"
            )
    try:
        charsmap = maps[0]["precompiled_charsmap"] or "" if maps else ""
        charsmap = base64.b64decode(charsmap, validate=True)
        pieces = [(piece, float(score)) for piece, score in model["vocab"]]
        more = [
            token["content"]
            for token in found.get("added_tokens") or []
            if token["id"] >= len(pieces)
        ]
        encoded = b"".join(_field(1, _piece(*piece)) for piece in pieces)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"Pieces with numbers are needed. Received: others in {path}") from error
    if more:
        raise UserError(f"An XLNet has no tokens besides its pieces. Received: {more[0]} in {path}")
    trainer = _field(3, _UNIGRAM) + _field(4, len(pieces))
    normalizer = _field(2, charsmap) + b"".join(_field(number, 1) for number in (3, 4, 5))
    return encoded + _field(2, trainer) + _field(3, normalizer), lowers


def _steps(found, name):
    """What is done one after the other."""
    if _type(found) == "Sequence" and isinstance(found.get(name), list):
        return found[name]
    return [found]


def _type(step):
    return step.get("type") if isinstance(step, dict) else None


def _is_before_words(metaspace):
    """Whether it puts its sign before each word, the first too."""
    return metaspace.get("replacement") == "\u2581" and (
        metaspace.get("prepend_scheme", "always" if metaspace.get("add_prefix_space") else None)
        == "always"
    )


def _piece(piece, score):
    kind = _NORMAL
    if piece == UNKNOWN:
        kind = _UNKNOWN
    elif piece in ("<s>", "</s>", *SPECIAL_TOKENS) and piece != "<eop>":  # in texts
        kind = _CONTROL
    elif score == 0:  # the others' are logarithms of chances
        kind = _USER_DEFINED
    elif score < -99 and piece[-1:] == "," and piece[-2:-1].isdigit():
        score += 100  # which older versions take away, so that these do not come
    return _field(1, piece.encode()) + _field(2, score) + _field(3, kind)


def _field(number, value):
    """A field of a protocol buffer: of bytes, an integer of at least 0, or a 32-bit float."""
    if isinstance(value, bytes):
        return _integer(number << 3 | 2) + _integer(len(value)) + value
    if isinstance(value, float):
        return _integer(number << 3 | 5) + struct.pack("<f", value)
    return _integer(number << 3) + _integer(value)


def _integer(value):
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
