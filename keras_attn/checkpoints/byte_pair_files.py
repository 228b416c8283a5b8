"""Byte-level BPE tokenizers of GPT-2 in folders of `transformers`."""

import os
from reprlib import repr as shorten

from keras_attn.checkpoints.architectures import check_rows
from keras_attn.checkpoints.huggingface_config import read_optional
from keras_attn.errors import UserError
from keras_attn.io.files import exists
from keras_attn.io.json_files import write_json
from keras_attn.text.byte_pairs import (
    END_OF_TEXT,
    FILES,
    BytePairTokenizer,
    padding_row_name,
    read_files,
)

TOKENIZER, CONFIG, _ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"


def read_tokenizer(folder, rows, append_eos=True):
    """Reads vocab.json and merges.txt, or tokenizer.json, or both, which must agree.

    Text is never tokenized to added tokens: special tokens in a text are ordinary text.

    Args:
        folder: Folder of the model.
        rows: Number of rows of the embedding matrix; the vocabulary is padded to it.
        append_eos: Whether texts of a classifier end in an end-of-sequence token.

    Returns:
        A `BytePairTokenizer`; None if the folder has none.

    Raises:
        UserError: If the tokenizer differs from GPT-2's, or exceeds the embedding matrix.
    """
    found = read_vocabulary(folder, lambda processor: not _adds_tokens(processor))
    return found and padded_tokenizer(*found, rows, folder, append_eos)


def read_vocabulary(folder, supports):
    """Reads the vocabulary and the merges of a tokenizer that splits text as GPT-2's does.

    Args:
        folder: Folder of the model.
        supports: Function of a post_processor in tokenizer.json that returns whether the rows of
            the tokenizer are supported.

    Returns:
        (vocabulary, merges), with the added tokens; None if the folder has no tokenizer.

    Raises:
        UserError: If the tokenizer splits text in another way, or files contradict each other.
    """
    config, tokenizer = (read_optional(folder, name) for name in (CONFIG, TOKENIZER))
    for name in ("add_prefix_space", "add_bos_token"):
        if config.get(name) not in (None, False):
            raise UserError(
                "The tokenizer must normalize text like GPT-2's. Received: "
                f"{name}={shorten(config[name])} in {folder}"
            )
    found = []
    if any(all(exists(os.path.join(folder, name)) for name in names) for names in FILES):
        found.append(read_files(folder))
    if tokenizer:
        found.append(_model_of(tokenizer, os.path.join(folder, TOKENIZER), supports))
    if not found:
        return None
    found = [([*tokens, *_added(folder, tokenizer, tokens)], merges) for tokens, merges in found]
    tokens, merges = found[0]
    if found[-1] != (tokens, merges):
        raise UserError(
            f"{TOKENIZER} and the vocabulary and merges files must contain the same vocabulary "
            f"and merges. Received: {folder}, where they differ"
        )
    return tokens, merges


def padded_tokenizer(tokens, merges, rows, folder, append_eos=True):
    """Returns a tokenizer whose vocabulary is padded to the rows of the embedding matrix.

    Raises:
        UserError: If the vocabulary is larger than the embedding matrix.
    """
    return BytePairTokenizer(padded(tokens, rows, folder), merges, folder, append_eos)


def padded(tokens, rows, folder):
    """Returns a vocabulary, padded to the rows of the embedding matrix.

    Raises:
        UserError: If the vocabulary is larger than the embedding matrix.
    """
    check_rows(tokens, rows, folder)
    return [*tokens, *map(padding_row_name, range(len(tokens), rows))]


def write_tokenizer(folder, tokenizer, length):
    """Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Folder to write to.
        tokenizer: `BytePairTokenizer`.
        length: Maximum sequence length of the model.
    """
    import tokenizers

    tokenizer = tokenizer.without_padding_rows()
    tokenizer.write(folder)
    written = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    written.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    written.add_special_tokens(
        [
            tokenizers.AddedToken(token, normalized=True, special=True)
            for token in (END_OF_TEXT, *tokenizer.added_tokens)
        ]
    )
    written.save(os.path.join(folder, TOKENIZER))
    write_json(
        os.path.join(folder, CONFIG),
        {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": False,
            "model_max_length": length,
            **{
                f"{name}_token": END_OF_TEXT
                for name in ("bos", "eos", "unk", *(() if tokenizer.append_eos else ("pad",)))
            },
        },
    )


def _model_of(tokenizer, path, supports):
    """Returns (vocabulary, merges) of a tokenizer.json."""
    for name, value, supported in _settings(tokenizer, supports):
        if not supported:
            raise UserError(
                "The tokenizer must be byte-level BPE like GPT-2's. "
                f"Received: {name}={shorten(value)} in {path}"
            )
    model = tokenizer["model"]
    tokens = _in_order(model["vocab"].items(), 0, path)
    merges = [
        tuple(pair.split(" "))
        if isinstance(pair, str)
        else tuple(pair)
        if isinstance(pair, list)
        else ()
        for pair in model["merges"]
    ]
    if any(len(pair) != 2 or not all(isinstance(token, str) for token in pair) for pair in merges):
        raise UserError(f"The merges must be pairs of tokens. Received: other values in {path}")
    return tokens, merges


def _settings(tokenizer, supports):
    """Yields the name and the value of each setting, and whether it is equivalent to GPT-2's."""
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
    # Old files have no use_regex.
    for name, value, needed in (
        ("add_prefix_space", before.get("add_prefix_space"), False),
        ("use_regex", before.get("use_regex", True), True),
    ):
        yield f"pre_tokenizer.{name}", value, value is needed
    after = tokenizer.get("post_processor")
    yield "post_processor", after, after is None or supports(after)


def _adds_tokens(processor):
    """Returns whether a post_processor, or one in a sequence, changes the ids of a text."""
    type_name = processor.get("type") if isinstance(processor, dict) else None
    if type_name == "Sequence" and isinstance(processor.get("processors"), list):
        return any(map(_adds_tokens, processor["processors"]))
    if type_name == "TemplateProcessing":  # [{"Sequence": …}] is the text alone
        single = processor.get("single")
        return not isinstance(single, list) or [
            isinstance(item, dict) and "Sequence" in item for item in single
        ] != [True]
    return type_name != "ByteLevel"  # ByteLevel only moves offsets


def _added(folder, tokenizer, tokens):
    """Returns the added tokens whose ids follow the vocabulary."""
    found = dict(read_optional(folder, _ADDED))
    added = tokenizer.get("added_tokens")
    for token in added if isinstance(added, list) else []:
        if isinstance(token, dict):
            found[str(token.get("content"))] = token.get("id")
    for token, number in list(found.items()):
        if isinstance(number, int) and 0 <= number < len(tokens) and tokens[number] == token:
            del found[token]
    return _in_order(found.items(), len(tokens), folder)


def _in_order(items, first, source):
    """Returns tokens in the order of their ids, which must be consecutive from `first`."""
    found = [item for item in items if type(item[1]) is int]
    found = sorted(found, key=lambda item: item[1]) if len(found) == len(items) else []
    if len(found) < len(items) or [number for _, number in found] != list(
        range(first, first + len(found))
    ):
        raise UserError(
            f"Token ids must be consecutive from {first}. Received: other ids in {source}"
        )
    return [token for token, _ in found]
