"""SentencePiece tokenizers of XLNet in folders of other libraries.

A folder has spiece.model, tokenizer.json, or both.
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
# Values in sentencepiece_model.proto of https://github.com/google/sentencepiece. Its Python module
# requires a newer protobuf than some versions of TensorFlow.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_UNIGRAM = 1
# Steps of normalization, besides those in `_model_of`.
_QUOTES = [
    {"type": "Replace", "pattern": {"String": quote}, "content": '"'} for quote in ("``", "''")
]
_BLANKS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}


def read_tokenizer(folder, rows, lowercase):
    """Reads spiece.model, or creates it from tokenizer.json; both must have the same vocabulary.

    Args:
        folder: Folder of the model.
        rows: Number of rows of the embedding matrix.
        lowercase: Whether text is lower-cased; None: unknown unless tokenizer.json has it.

    Returns:
        The `SentencePieceTokenizer`, None if the folder has none, and whether text is lower-cased.

    Raises:
        UserError: If the tokenizer differs from XLNet's, or its vocabulary size from `rows`.
    """
    path, created = os.path.join(folder, TOKENIZER), None
    if os.path.isfile(path):
        model, found = _model_of(read_object(path), path)
        if lowercase not in (None, found):
            raise UserError(
                f"Conflicting values of lowercase. Received: {found} in {path}, {lowercase} in "
                "another file or as an argument"
            )
        created, lowercase = SentencePieceTokenizer(model, found, path), found
    tokenizer = created
    if os.path.isfile(os.path.join(folder, FILE)):
        tokenizer = SentencePieceTokenizer.read(folder, bool(lowercase))
    if tokenizer is None:
        return None, lowercase
    if created and created.vocabulary != tokenizer.vocabulary:
        raise UserError(
            f"{TOKENIZER} and {FILE} must contain the same vocabulary. Received: {folder}, where "
            "they differ"
        )
    if tokenizer.vocabulary_size != rows:
        raise UserError(
            "The vocabulary must have a token for each row of the embedding matrix. "
            f"Received: {counted(tokenizer.vocabulary_size, 'token')}, "
            f"{counted(rows, 'row')} in {folder}"
        )
    return tokenizer, lowercase


def _model_of(found, path):
    """Returns the bytes of a SentencePiece model, and whether text is lower-cased."""
    steps = _steps(found.get("normalizer"), "normalizers")
    lowercase = {"type": "Lowercase"} in steps
    maps = [step for step in steps if _type(step) == "Precompiled"]
    wanted = [
        *_QUOTES,
        {"type": "NFKD"},
        {"type": "StripAccents"},
        *[{"type": "Lowercase"}] * lowercase,
        *maps[:1],
    ]
    before = _steps(found.get("pre_tokenizer"), "pretokenizers")
    model = found.get("model")
    model = model if isinstance(model, dict) else {}
    for name, value, supported in (
        ("model.type", model.get("type"), model.get("type") == "Unigram"),
        ("model.byte_fallback", model.get("byte_fallback"), not model.get("byte_fallback")),
        ("normalizer", steps, [step for step in steps if step != _BLANKS] == wanted),
        (
            "pre_tokenizer",
            before,
            [_type(step) for step in before] in (["Metaspace"], ["WhitespaceSplit", "Metaspace"])
            and _precedes_words(before[-1]),
        ),
    ):
        if not supported:
            raise UserError(
                "The tokenizer must be a SentencePiece model like XLNet's. "
                f"Received: {name}={shorten(value)} in {path}"
            )
    try:
        charsmap = maps[0]["precompiled_charsmap"] or "" if maps else ""
        charsmap = base64.b64decode(charsmap, validate=True)
        pieces = [(piece, float(score)) for piece, score in model["vocab"]]
        added = [
            token["content"]
            for token in found.get("added_tokens") or []
            if token["id"] >= len(pieces)
        ]
        encoded = b"".join(_field(1, _piece(*piece)) for piece in pieces)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"The vocabulary must be a list of tokens with scores. Received: other values in {path}"
        ) from error
    if added:
        raise UserError(f"Added tokens are not supported. Received: {added[0]} in {path}")
    trainer = _field(3, _UNIGRAM) + _field(4, len(pieces))
    normalizer = _field(2, charsmap) + b"".join(_field(number, 1) for number in (3, 4, 5))
    return encoded + _field(2, trainer) + _field(3, normalizer), lowercase


def _steps(found, name):
    """Returns the steps of a sequence, or the step itself."""
    if _type(found) == "Sequence" and isinstance(found.get(name), list):
        return found[name]
    return [found]


def _type(step):
    return step.get("type") if isinstance(step, dict) else None


def _precedes_words(metaspace):
    """Returns whether a Metaspace step puts its sign before each word, including the first."""
    return metaspace.get("replacement") == "\u2581" and (
        metaspace.get("prepend_scheme", "always" if metaspace.get("add_prefix_space") else None)
        == "always"
    )


def _piece(piece, score):
    kind = _NORMAL
    if piece == UNKNOWN:
        kind = _UNKNOWN
    elif piece in ("<s>", "</s>", *SPECIAL_TOKENS) and piece != "<eop>":  # may occur in texts
        kind = _CONTROL
    elif score == 0:  # other scores are log probabilities
        kind = _USER_DEFINED
    elif score < -99 and piece[-1:] == "," and piece[-2:-1].isdigit():
        score += 100  # the penalty that old versions of SentencePiece subtract
    return _field(1, piece.encode()) + _field(2, score) + _field(3, kind)


def _field(number, value):
    """Encodes a field of a protocol buffer: bytes, a non-negative integer or a 32-bit float."""
    if isinstance(value, bytes):
        return _integer(number << 3 | 2) + _integer(len(value)) + value
    if isinstance(value, float):
        return _integer(number << 3 | 5) + struct.pack("<f", value)
    return _integer(number << 3) + _integer(value)


def _integer(value):
    """Encodes a varint: seven bits per byte, lowest first; the eighth bit marks continuation."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
