"""Tokenizers of RoBERTa in folders of `transformers`."""

import os
from reprlib import repr as shorten

from keras_attn.checkpoints.byte_pair_files import CONFIG, TOKENIZER, padded, read_vocabulary
from keras_attn.checkpoints.huggingface_config import read_optional
from keras_attn.errors import UserError
from keras_attn.io.json_files import write_json
from keras_attn.text.roberta_byte_pairs import SPECIAL_TOKENS, RobertaTokenizer

_SPECIAL = "special_tokens_map.json"
_NAMES = dict(zip(("cls", "pad", "sep", "unk", "mask"), SPECIAL_TOKENS, strict=True))
_NAMES |= {"bos": _NAMES["cls"], "eos": _NAMES["sep"]}


def read_tokenizer(folder, rows):
    """Reads vocab.json and merges.txt, or tokenizer.json, or both, which must agree.

    Text is never tokenized to special tokens: `<mask>` in a text is ordinary text.

    Args:
        folder: Folder of the model.
        rows: Number of rows of the embedding matrix; the vocabulary is padded to it.

    Returns:
        A `RobertaTokenizer`; None if the folder has none.

    Raises:
        UserError: If the tokenizer differs from RoBERTa's, or exceeds the embedding matrix.
    """
    for file in (CONFIG, _SPECIAL):
        values = read_optional(folder, file)
        for name, token in _NAMES.items():
            found = values.get(f"{name}_token", token)
            found = found.get("content") if isinstance(found, dict) else found
            if found != token:
                raise UserError(
                    f"The special tokens must be {' '.join(SPECIAL_TOKENS)}. Received: "
                    f"{name}_token={shorten(found)} in {os.path.join(folder, file)}"
                )
    found = read_vocabulary(folder, _is_of_roberta)
    if found is None:
        return None
    tokens, merges = found
    return RobertaTokenizer(padded(tokens, rows, folder), merges, folder)


def write_tokenizer(folder, tokenizer, length):
    """Writes vocab.json, merges.txt, tokenizer.json and tokenizer_config.json.

    Args:
        folder: Folder to write to.
        tokenizer: `RobertaTokenizer`.
        length: Maximum sequence length of the model.
    """
    import tokenizers

    tokenizer = tokenizer.without_padding_rows()
    tokenizer.write(folder)
    written = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    written.post_processor = tokenizers.processors.RobertaProcessing(
        (_NAMES["sep"], tokenizer.sep_id),
        (_NAMES["cls"], tokenizer.cls_id),
        trim_offsets=True,
        add_prefix_space=False,
    )
    # A space before <mask> belongs to it.
    special = [
        tokenizers.AddedToken(token, lstrip=token == _NAMES["mask"], normalized=False, special=True)
        for token in SPECIAL_TOKENS
    ]
    written.add_special_tokens([*special, *tokenizer.added_tokens])
    written.save(os.path.join(folder, TOKENIZER))
    write_json(
        os.path.join(folder, CONFIG),
        {
            "tokenizer_class": "RobertaTokenizer",
            "add_prefix_space": False,
            "trim_offsets": True,
            "model_max_length": length,
            **{f"{name}_token": token for name, token in _NAMES.items()},
        },
    )


def _is_of_roberta(processor):
    """Returns whether a post_processor encloses texts in the special tokens of RoBERTa."""
    type_name = processor.get("type") if isinstance(processor, dict) else None
    if type_name != "RobertaProcessing":
        return type_name == "ByteLevel"  # the tokens are added elsewhere
    ends = [processor.get(name) for name in ("cls", "sep")]
    return [end[0] if isinstance(end, list) and end else end for end in ends] == [
        _NAMES["cls"],
        _NAMES["sep"],
    ]
