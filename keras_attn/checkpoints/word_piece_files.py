"""WordPiece tokenizers in folders of `transformers`, as those of BERT."""

import os
from reprlib import repr as shorten

from keras_attn.checkpoints.huggingface_config import read_optional
from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.io.json_files import write_json
from keras_attn.text.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from keras_attn.text.wordpiece import WordPieceTokenizer

VOCABULARY, TOKENIZER, CONFIG = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
_SPECIAL, _ADDED = "special_tokens_map.json", "added_tokens.json"
_NAMES = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS, strict=True))


def read_tokenizer(folder, rows):
    """Reads the tokenizer, and whether text is lower-cased.

    A word of 101 to 200 characters, one [UNK] there, is cut into pieces here, as BERT's was in
    training.

    Args:
        folder: Of a model.
        rows: Of its embedding matrix; the vocabulary gets a name for each.

    Returns:
        (`WordPieceTokenizer`, lowercase): None for what the folder does not say.

    Raises:
        UserError: For a tokenizer that is not BERT's, or files that contradict each other.
    """
    config, tokenizer = (read_optional(folder, name) for name in (CONFIG, TOKENIZER))
    settings = _settings(config, tokenizer, folder)
    lowercase = settings.get("lowercase")
    for name, needed in (
        ("lowercase", (None, True, False)),
        ("strip_accents", (None, lowercase)),
        ("clean_text", (None, True)),
        ("handle_chinese_chars", (None, True)),
        ("do_basic_tokenize", (None, True)),
        ("never_split", (None, [])),
        ("word_tokenizer_type", (None, "basic")),
        ("subword_tokenizer_type", (None, "wordpiece")),
    ):
        if settings.get(name) not in needed:
            raise UserError(
                "A tokenizer must treat text as BERT's does. Received: "
                f"{name}={shorten(settings[name])} with "
                f"lowercase={shorten(lowercase)} in {folder}"
            )
    for file, said in ((CONFIG, config), (_SPECIAL, read_optional(folder, _SPECIAL))):
        for name, token in _NAMES.items():
            found = said.get(f"{name}_token", token)
            found = found.get("content") if isinstance(found, dict) else found
            if found != token:
                raise UserError(
                    f"The special tokens must be {' '.join(SPECIAL_TOKENS)}. Received: "
                    f"{name}_token={shorten(found)} in {os.path.join(folder, file)}"
                )
    vocabulary = _vocabulary(tokenizer, os.path.join(folder, TOKENIZER)) if tokenizer else None
    path = os.path.join(folder, VOCABULARY)
    if os.path.isfile(path):
        listed = read_vocabulary(path)
        if vocabulary is not None and vocabulary != listed:
            raise UserError(
                f"{VOCABULARY} and {TOKENIZER} must hold the same vocabulary. "
                f"Received: {folder}, where they differ"
            )
        vocabulary = listed
    if vocabulary is not None:
        _check_added(folder, config, tokenizer, vocabulary)
        return fitted(vocabulary, lowercase, rows, folder), lowercase
    return None, lowercase


def fitted(vocabulary, lowercase, rows, folder):
    """A tokenizer with a name for each row of the embedding matrix, which may have more.

    Args:
        vocabulary: List of str.
        lowercase: Whether text is lower-cased; None: not known yet.
        rows: Of the embedding matrix.
        folder: Name of the folder in messages.

    Raises:
        UserError: If the vocabulary is larger.
    """
    if len(vocabulary) > rows:
        raise UserError(
            "The vocabulary must not be larger than the embedding matrix. Received: "
            f"{counted(len(vocabulary), 'token')}, {counted(rows, 'row')} in {folder}"
        )
    names = [f"[row {n}]" for n in range(len(vocabulary), rows)]
    return WordPieceTokenizer([*vocabulary, *names], bool(lowercase))


def write_tokenizer(folder, vocabulary, lowercase, length, name="BertTokenizer"):
    """Writes vocab.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Where to.
        vocabulary, lowercase: Of the model.
        length: Longest input of the model.
        name: Class of the tokenizer in `transformers`.
    """
    from tokenizers import BertWordPieceTokenizer

    write_vocabulary(os.path.join(folder, VOCABULARY), vocabulary)
    pieces = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = BertWordPieceTokenizer(pieces, lowercase=lowercase, strip_accents=lowercase)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.save(os.path.join(folder, TOKENIZER))
    write_json(
        os.path.join(folder, CONFIG),
        {
            "tokenizer_class": name,
            "do_lower_case": lowercase,
            "strip_accents": None,
            "tokenize_chinese_chars": True,
            "model_max_length": length,
            **{f"{name}_token": token for name, token in _NAMES.items()},
        },
    )


def _settings(config, tokenizer, folder):
    """How text is treated, as both files say."""
    names = {"do_lower_case": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
    said = {names.get(name, name): value for name, value in config.items()}
    if not tokenizer:
        return said
    path = os.path.join(folder, TOKENIZER)
    for part, needed in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        found = tokenizer.get(part)
        if not isinstance(found, dict) or found.get("type") != needed:
            raise UserError(f"A {needed} is needed. Received: another in {path}")
    normalizer = tokenizer["normalizer"]
    for name in ("lowercase", "strip_accents", "handle_chinese_chars"):
        if said.get(name) not in (None, normalizer.get(name)):
            raise UserError(
                f"{CONFIG} and {TOKENIZER} must agree. Received: "
                f"{name}={shorten(said[name])} and "
                f"{name}={shorten(normalizer.get(name))} in {folder}"
            )
    return {**said, **normalizer}


def _check_added(folder, config, tokenizer, vocabulary):
    """Checks that tokens that were added later are pieces of the vocabulary, by their numbers."""
    said = tokenizer.get("added_tokens")
    found = [
        (token.get("content"), token.get("id")) if isinstance(token, dict) else (token, None)
        for token in (said if isinstance(said, list) else [])
    ]
    found += read_optional(folder, _ADDED).items()
    said = config.get("added_tokens_decoder")
    found += [
        (token.get("content") if isinstance(token, dict) else token, number)
        for number, token in (said.items() if isinstance(said, dict) else ())
    ]
    places = {piece: str(place) for place, piece in enumerate(vocabulary)}
    for content, number in found:
        if not isinstance(content, str) or places.get(content) != str(number):
            raise UserError(
                "Every token must be a piece of the vocabulary. Received: "
                f"{shorten(content)}, added in {folder}"
            )


def _vocabulary(tokenizer, path):
    model = tokenizer.get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if (
        not isinstance(pieces, dict)
        or model.get("type", "WordPiece") != "WordPiece"
        or model.get("continuing_subword_prefix", "##") != "##"
    ):
        raise UserError(f"A WordPiece model is needed. Received: another in {path}")
    vocabulary = sorted(pieces, key=lambda piece: (str(type(pieces[piece])), pieces[piece]))
    if [pieces[piece] for piece in vocabulary] != list(range(len(vocabulary))):
        raise UserError(f"The ids of the vocabulary must be 0, 1, …. Received: others in {path}")
    check_vocabulary(vocabulary, path)
    return vocabulary
