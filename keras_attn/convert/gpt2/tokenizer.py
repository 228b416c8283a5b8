"""The tokenizer's files in a folder of `transformers`, of GPT-2."""

import os
from reprlib import repr as shorten

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.json_files import read_object, write_json
from keras_attn.text.byte_pairs import END_OF_TEXT, FILES, BytePairTokenizer, read_files

TOKENIZER, CONFIG, _ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"


def read_tokenizer(folder, rows):
    """Reads vocab.json and merges.txt, or tokenizer.json.

    Tokens that were added later are pieces that no text is cut into: marks in a text are text.

    Args:
        folder: Of a model.
        rows: Of its token table; the vocabulary gets a name for each.

    Returns:
        A `BytePairTokenizer`; None if the folder has none.

    Raises:
        UserError: For another tokenizer than GPT-2's, and one that does not fit the table.
    """
    config, tokenizer = (_read(folder, name) for name in (CONFIG, TOKENIZER))
    for name in ("add_prefix_space", "add_bos_token"):
        if config.get(name) not in (None, False):
            raise UserError("A tokenizer must treat text as GPT-2's does. Received: "
                            f"{name}={shorten(config[name])} in {folder}")
    if any(all(tf.io.gfile.exists(os.path.join(folder, name)) for name in names)
           for names in FILES):
        pieces, merges = read_files(folder)
    elif tokenizer:
        pieces, merges = _model_of(tokenizer, os.path.join(folder, TOKENIZER))
    else:
        return None
    return fitted([*pieces, *_added(folder, tokenizer, pieces)], merges, rows, folder)


def fitted(pieces, merges, rows, folder):
    """A tokenizer with a piece for each row of the token table, which may have more.

    Raises:
        UserError: If it has fewer.
    """
    if len(pieces) > rows:
        raise UserError("The vocabulary must not be larger than the token table. Received: "
                        f"{len(pieces)} pieces, {rows} rows in {folder}")
    names = [f"[row {number}]" for number in range(len(pieces), rows)]
    return BytePairTokenizer([*pieces, *names], merges, folder)


def write_tokenizer(folder, tokenizer, length):
    """Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Where to.
        tokenizer: A `BytePairTokenizer`.
        length: Longest input of the model.
    """
    import tokenizers

    tokenizer.write(folder)
    whole = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    whole.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    whole.add_special_tokens([tokenizers.AddedToken(END_OF_TEXT, normalized=True, special=True)])
    whole.save(os.path.join(folder, TOKENIZER))
    write_json(os.path.join(folder, CONFIG), {
        "tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "model_max_length": length,
        **{f"{name}_token": END_OF_TEXT for name in ("bos", "eos", "unk")}})


def _read(folder, name):
    path = os.path.join(folder, name)
    return read_object(path) if os.path.isfile(path) else {}


def _model_of(tokenizer, path):
    """(pieces, merges) of a tokenizer.json."""
    model, before = tokenizer.get("model"), tokenizer.get("pre_tokenizer")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE" or \
            not isinstance(model.get("vocab"), dict) or not isinstance(model.get("merges"), list) \
            or not isinstance(before, dict) or before.get("type") != "ByteLevel" or \
            before.get("add_prefix_space") is not False or tokenizer.get("normalizer") or \
            any(model.get(name) for name in ("ignore_merges", "end_of_word_suffix", "dropout",
                                             "continuing_subword_prefix")):
        raise UserError("A byte-level BPE model without prefix_space is needed. "
                        f"Received: another in {path}")
    pieces = _in_order(model["vocab"].items(), 0, path)
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else
              tuple(pair) if isinstance(pair, list) else () for pair in model["merges"]]
    if any(len(pair) != 2 or not all(isinstance(piece, str) for piece in pair) for pair in merges):
        raise UserError(f"Merges must be pairs of pieces. Received: others in {path}")
    return pieces, merges


def _added(folder, tokenizer, pieces):
    """The tokens that were added behind the vocabulary."""
    found = dict(_read(folder, _ADDED))
    said = tokenizer.get("added_tokens")
    for token in said if isinstance(said, list) else []:
        if isinstance(token, dict):
            found[str(token.get("content"))] = token.get("id")
    for piece, number in list(found.items()):
        if isinstance(number, int) and 0 <= number < len(pieces) and pieces[number] == piece:
            del found[piece]
    return _in_order(found.items(), len(pieces), folder)


def _in_order(items, first, source):
    """Pieces in the order of their ids, which must go on from the first."""
    found = [item for item in items if type(item[1]) is int]
    found = sorted(found, key=lambda item: item[1]) if len(found) == len(items) else []
    if len(found) < len(items) or \
            [number for _, number in found] != list(range(first, first + len(found))):
        raise UserError(f"The ids of the vocabulary must be 0, 1, …. Received: others in {source}")
    return [piece for piece, _ in found]
