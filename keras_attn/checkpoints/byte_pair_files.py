"""Byte-level BPE tokenizers in folders of `transformers`, as those of GPT-2."""

import os
from reprlib import repr as shorten

import tensorflow as tf

from keras_attn.checkpoints.huggingface_config import read_optional
from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.io.json_files import write_json
from keras_attn.text.byte_pairs import (
    END_OF_TEXT,
    FILES,
    BytePairTokenizer,
    padding_row_name,
    read_files,
)

TOKENIZER, CONFIG, _ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"


def read_tokenizer(folder, rows, end_mark=True):
    """Reads vocab.json and merges.txt, or tokenizer.json, or both, which must agree.

    Tokens that were added later are pieces that no text is cut into: marks in a text are text.

    Args:
        folder: Of a model.
        rows: Of its token table; the vocabulary gets a name for each.
        end_mark: Whether a classifier's texts end in a mark.

    Returns:
        A `BytePairTokenizer`; None if the folder has none.

    Raises:
        UserError: For another tokenizer than GPT-2's, and one that does not fit the table.
    """
    config, tokenizer = (read_optional(folder, name) for name in (CONFIG, TOKENIZER))
    for name in ("add_prefix_space", "add_bos_token"):
        if config.get(name) not in (None, False):
            raise UserError(
                "A tokenizer must treat text as GPT-2's does. Received: "
                f"{name}={shorten(config[name])} in {folder}"
            )
    found = []
    if any(
        all(tf.io.gfile.exists(os.path.join(folder, name)) for name in names) for names in FILES
    ):
        found.append(read_files(folder))
    if tokenizer:
        found.append(_model_of(tokenizer, os.path.join(folder, TOKENIZER)))
    if not found:
        return None
    found = [([*pieces, *_added(folder, tokenizer, pieces)], merges) for pieces, merges in found]
    pieces, merges = found[0]
    if found[-1] != (pieces, merges):
        raise UserError(
            f"{TOKENIZER} and the files of vocabulary and merges must hold the same "
            f"pieces and merges. Received: others in {folder}"
        )
    return fitted(pieces, merges, rows, folder, end_mark)


def fitted(pieces, merges, rows, folder, end_mark=True):
    """A tokenizer with a piece for each row of the token table, which may have more.

    Raises:
        UserError: If it has fewer.
    """
    if len(pieces) > rows:
        raise UserError(
            "The vocabulary must not be larger than the token table. Received: "
            f"{counted(len(pieces), 'piece')}, {counted(rows, 'row')} in {folder}"
        )
    names = map(padding_row_name, range(len(pieces), rows))
    return BytePairTokenizer([*pieces, *names], merges, folder, end_mark)


def write_tokenizer(folder, tokenizer, length):
    """Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Where to.
        tokenizer: A `BytePairTokenizer`.
        length: Longest input of the model.
    """
    import tokenizers

    tokenizer = tokenizer.without_padding_rows()
    tokenizer.write(folder)
    whole = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    whole.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    whole.add_special_tokens(
        [
            tokenizers.AddedToken(piece, normalized=True, special=True)
            for piece in (END_OF_TEXT, *tokenizer.added_tokens)
        ]
    )
    whole.save(os.path.join(folder, TOKENIZER))
    write_json(
        os.path.join(folder, CONFIG),
        {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": False,
            "model_max_length": length,
            **{
                f"{name}_token": END_OF_TEXT
                for name in ("bos", "eos", "unk", *(() if tokenizer.end_mark else ("pad",)))
            },
        },
    )


def _model_of(tokenizer, path):
    """(pieces, merges) of a tokenizer.json."""
    for name, value, right in _settings(tokenizer):
        if not right:
            raise UserError(
                "A tokenizer must be byte-level BPE, as GPT-2's. "
                f"Received: {name}={shorten(value)} in {path}"
            )
    model = tokenizer["model"]
    pieces = _in_order(model["vocab"].items(), 0, path)
    merges = [
        tuple(pair.split(" "))
        if isinstance(pair, str)
        else tuple(pair)
        if isinstance(pair, list)
        else ()
        for pair in model["merges"]
    ]
    if any(len(pair) != 2 or not all(isinstance(piece, str) for piece in pair) for pair in merges):
        raise UserError(f"Merges must be pairs of pieces. Received: others in {path}")
    return pieces, merges


def _settings(tokenizer):
    """Yields (name, value, whether GPT-2's has it or ids are the same) of a tokenizer.json."""
    model = tokenizer.get("model")
    yield "model", model, isinstance(model, dict)
    yield "model.type", model.get("type"), model.get("type", "BPE") == "BPE"
    for name, kind in (("vocab", dict), ("merges", list)):
        yield f"model.{name}", model.get(name), isinstance(model.get(name), kind)
    for name in ("ignore_merges", "end_of_word_suffix", "dropout", "continuing_subword_prefix"):
        yield f"model.{name}", model.get(name), not model.get(name)
    yield "normalizer", tokenizer.get("normalizer"), not tokenizer.get("normalizer")
    before = tokenizer.get("pre_tokenizer")
    yield "pre_tokenizer", before, isinstance(before, dict) and before.get("type") == "ByteLevel"
    # use_regex is missing in files from before there was any.
    for name, value, needed in (
        ("add_prefix_space", before.get("add_prefix_space"), False),
        ("use_regex", before.get("use_regex", True), True),
    ):
        yield f"pre_tokenizer.{name}", value, value is needed
    after = tokenizer.get("post_processor")
    yield "post_processor", after, after is None or not _adds_tokens(after)


def _adds_tokens(processor):
    """Whether a post_processor, or one of a sequence, changes the ids of a text."""
    type_name = processor.get("type") if isinstance(processor, dict) else None
    if type_name == "Sequence" and isinstance(processor.get("processors"), list):
        return any(map(_adds_tokens, processor["processors"]))
    if type_name == "TemplateProcessing":  # of a text: [{"Sequence": …}] is the text alone
        single = processor.get("single")
        return not isinstance(single, list) or [
            isinstance(piece, dict) and "Sequence" in piece for piece in single
        ] != [True]
    return type_name != "ByteLevel"  # which moves offsets alone


def _added(folder, tokenizer, pieces):
    """The tokens that were added behind the vocabulary."""
    found = dict(read_optional(folder, _ADDED))
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
    if len(found) < len(items) or [number for _, number in found] != list(
        range(first, first + len(found))
    ):
        raise UserError(f"The ids of the vocabulary must be 0, 1, …. Received: others in {source}")
    return [piece for piece, _ in found]
