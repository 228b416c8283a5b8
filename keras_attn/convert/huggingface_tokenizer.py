"""The tokenizer's files in a folder of `transformers`."""

import os
from reprlib import repr as shorten

from keras_attn.errors import UserError
from keras_attn.json_files import read_object, write_json
from keras_attn.text.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)

VOCABULARY, TOKENIZER, CONFIG = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
_SPECIAL = "special_tokens_map.json"
_NAMES = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL_TOKENS, strict=True))


def read_tokenizer(folder):
    """Reads the vocabulary, and whether text is lower-cased.

    A word of 101 to 200 characters, one [UNK] there, is cut into pieces here, as BERT's was in
    training.

    Returns:
        (vocabulary, lowercase): None for what the folder does not say.

    Raises:
        UserError: For a tokenizer that is not BERT's, or files that contradict each other.
    """
    config, tokenizer = (_read(folder, name) for name in (CONFIG, TOKENIZER))
    settings, where = _settings(config, tokenizer, folder)
    lowercase = settings.get("lowercase")
    for name, needed in (("lowercase", (None, True, False)), ("strip_accents", (None, lowercase)),
                         ("clean_text", (None, True)), ("handle_chinese_chars", (None, True)),
                         ("do_basic_tokenize", (None, True)), ("never_split", (None, []))):
        if settings.get(name) not in needed:
            raise UserError("A tokenizer must treat text as BERT's does. Received: "
                            f"{name}={shorten(settings[name])} with "
                            f"lowercase={shorten(lowercase)} in {where}")
    for file, said in ((CONFIG, config), (_SPECIAL, _read(folder, _SPECIAL))):
        for name, token in _NAMES.items():
            found = said.get(f"{name}_token", token)
            found = found.get("content") if isinstance(found, dict) else found
            if found != token:
                raise UserError(f"The special tokens must be {' '.join(SPECIAL_TOKENS)}. Received: "
                                f"{name}_token={shorten(found)} in {os.path.join(folder, file)}")
    vocabulary = _vocabulary(tokenizer, os.path.join(folder, TOKENIZER)) if tokenizer else None
    path = os.path.join(folder, VOCABULARY)
    if os.path.isfile(path):
        listed = read_vocabulary(path)
        if vocabulary is not None and vocabulary != listed:
            raise UserError(f"{VOCABULARY} and {TOKENIZER} must hold the same vocabulary. "
                            f"Received: {folder}, where they differ")
        vocabulary = listed
    return vocabulary, lowercase


def write_tokenizer(folder, vocabulary, lowercase, length):
    """Writes vocab.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Where to.
        vocabulary, lowercase: Of the model.
        length: Longest input of the model.
    """
    from tokenizers import BertWordPieceTokenizer

    write_vocabulary(os.path.join(folder, VOCABULARY), vocabulary)
    pieces = {piece: number for number, piece in enumerate(vocabulary)}
    tokenizer = BertWordPieceTokenizer(pieces, lowercase=lowercase, strip_accents=lowercase)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.save(os.path.join(folder, TOKENIZER))
    write_json(os.path.join(folder, CONFIG), {
        "tokenizer_class": "BertTokenizer", "do_lower_case": lowercase, "strip_accents": None,
        "tokenize_chinese_chars": True, "model_max_length": length,
        **{f"{name}_token": token for name, token in _NAMES.items()},
    })


def _read(folder, name):
    path = os.path.join(folder, name)
    return read_object(path) if os.path.isfile(path) else {}


def _settings(config, tokenizer, folder):
    """How text is treated, and the file that says so; tokenizer.json is what is used."""
    said = {name: config[theirs] for name, theirs in (
        ("lowercase", "do_lower_case"), ("strip_accents", "strip_accents"),
        ("handle_chinese_chars", "tokenize_chinese_chars"),
        ("do_basic_tokenize", "do_basic_tokenize"), ("never_split", "never_split"))
        if theirs in config}
    if not tokenizer:
        return said, os.path.join(folder, CONFIG)
    path = os.path.join(folder, TOKENIZER)
    normalizer = tokenizer.get("normalizer")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        raise UserError(f"A BertNormalizer is needed. Received: another in {path}")
    splitter = tokenizer.get("pre_tokenizer")
    if not isinstance(splitter, dict) or splitter.get("type") != "BertPreTokenizer":
        raise UserError(f"A BertPreTokenizer is needed. Received: another in {path}")
    if said.get("lowercase", normalizer.get("lowercase")) != normalizer.get("lowercase"):
        raise UserError(f"{CONFIG} and {TOKENIZER} must agree. Received: "
                        f"do_lower_case={shorten(said['lowercase'])} and "
                        f"lowercase={shorten(normalizer.get('lowercase'))} in {folder}")
    return {**said, **normalizer}, path


def _vocabulary(tokenizer, path):
    model = tokenizer.get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(pieces, dict) or model.get("type", "WordPiece") != "WordPiece" or \
            model.get("continuing_subword_prefix", "##") != "##":
        raise UserError(f"A WordPiece model is needed. Received: another in {path}")
    vocabulary = sorted(pieces, key=lambda piece: (str(type(pieces[piece])), pieces[piece]))
    if [pieces[piece] for piece in vocabulary] != list(range(len(vocabulary))):
        raise UserError(f"The ids of the vocabulary must be 0, 1, …. Received: others in {path}")
    check_vocabulary(vocabulary, path)
    added = tokenizer.get("added_tokens")
    for token in added if isinstance(added, list) else []:
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or pieces.get(content, -1) != token.get("id"):
            raise UserError("Every token must be a piece of the vocabulary. Received: "
                            f"{shorten(content)}, added in {path}")
    return vocabulary
