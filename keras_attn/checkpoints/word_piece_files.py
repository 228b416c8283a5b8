"""WordPiece tokenizers of BERT in folders of `transformers`."""

import os
from reprlib import repr as shorten

from keras_attn.checkpoints.architectures import check_rows
from keras_attn.checkpoints.huggingface_config import read_optional
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

    Words of 101 to 200 characters, which are [UNK] in `transformers`, are tokenized as in BERT's
    training.

    Args:
        folder: Folder of the model.
        rows: Number of rows of the embedding matrix; the vocabulary is padded to it.

    Returns:
        (`WordPieceTokenizer`, lowercase), None for what the folder does not contain.

    Raises:
        UserError: If the tokenizer differs from BERT's, or the files contradict each other.
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
                "The tokenizer must normalize text like BERT's. Received: "
                f"{name}={shorten(settings[name])} with "
                f"lowercase={shorten(lowercase)} in {folder}"
            )
    for file, values in ((CONFIG, config), (_SPECIAL, read_optional(folder, _SPECIAL))):
        for name, token in _NAMES.items():
            found = values.get(f"{name}_token", token)
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
                f"{VOCABULARY} and {TOKENIZER} must contain the same vocabulary. "
                f"Received: {folder}, where they differ"
            )
        vocabulary = listed
    if vocabulary is not None:
        _check_added(folder, config, tokenizer, vocabulary)
        return padded_tokenizer(vocabulary, lowercase, rows, folder), lowercase
    return None, lowercase


def padded_tokenizer(vocabulary, lowercase, rows, folder):
    """Returns a tokenizer whose vocabulary is padded to the rows of the embedding matrix.

    Args:
        vocabulary: List of tokens.
        lowercase: Whether text is lower-cased; None: unknown.
        rows: Number of rows of the embedding matrix.
        folder: Name of the folder in messages.

    Raises:
        UserError: If the vocabulary is larger than the embedding matrix.
    """
    check_rows(vocabulary, rows, folder)
    names = [f"[row {n}]" for n in range(len(vocabulary), rows)]
    return WordPieceTokenizer([*vocabulary, *names], bool(lowercase))


def write_tokenizer(folder, vocabulary, lowercase, length, name="BertTokenizer"):
    """Writes vocab.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Folder to write to.
        vocabulary: List of tokens.
        lowercase: Whether text is lower-cased.
        length: Maximum sequence length of the model.
        name: Class of the tokenizer in `transformers`.
    """
    from tokenizers import BertWordPieceTokenizer

    write_vocabulary(os.path.join(folder, VOCABULARY), vocabulary)
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = BertWordPieceTokenizer(ids, lowercase=lowercase, strip_accents=lowercase)
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
    """Returns the settings of normalization in both files, which must agree."""
    names = {"do_lower_case": "lowercase", "tokenize_chinese_chars": "handle_chinese_chars"}
    settings = {names.get(name, name): value for name, value in config.items()}
    if not tokenizer:
        return settings
    path = os.path.join(folder, TOKENIZER)
    for field, needed in (("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        found = tokenizer.get(field)
        if not isinstance(found, dict) or found.get("type") != needed:
            raise UserError(f"The {field} must be a {needed}. Received: {shorten(found)} in {path}")
    normalizer = tokenizer["normalizer"]
    for name in ("lowercase", "strip_accents", "handle_chinese_chars"):
        if settings.get(name) not in (None, normalizer.get(name)):
            raise UserError(
                f"{CONFIG} and {TOKENIZER} must agree. Received: "
                f"{name}={shorten(settings[name])} and "
                f"{name}={shorten(normalizer.get(name))} in {folder}"
            )
    return {**settings, **normalizer}


def _check_added(folder, config, tokenizer, vocabulary):
    """Raises a `UserError` unless the added tokens are in the vocabulary, with the same ids."""
    added = tokenizer.get("added_tokens")
    found = [
        (token.get("content"), token.get("id")) if isinstance(token, dict) else (token, None)
        for token in (added if isinstance(added, list) else [])
    ]
    found += read_optional(folder, _ADDED).items()
    added = config.get("added_tokens_decoder")
    found += [
        (token.get("content") if isinstance(token, dict) else token, number)
        for number, token in (added.items() if isinstance(added, dict) else ())
    ]
    ids = {token: str(number) for number, token in enumerate(vocabulary)}
    for content, number in found:
        if not isinstance(content, str) or ids.get(content) != str(number):
            raise UserError(
                "Added tokens must be in the vocabulary, with the same ids. Received: "
                f"{shorten(content)} in {folder}"
            )


def _vocabulary(tokenizer, path):
    model = tokenizer.get("model")
    ids = model.get("vocab") if isinstance(model, dict) else None
    if (
        not isinstance(ids, dict)
        or model.get("type", "WordPiece") != "WordPiece"
        or model.get("continuing_subword_prefix", "##") != "##"
    ):
        raise UserError(
            f"The model must be WordPiece with the prefix ##. Received: another model in {path}"
        )
    vocabulary = sorted(ids, key=lambda token: (str(type(ids[token])), ids[token]))
    if [ids[token] for token in vocabulary] != list(range(len(vocabulary))):
        raise UserError(f"Token ids must be consecutive from 0. Received: other ids in {path}")
    check_vocabulary(vocabulary, path)
    return vocabulary
