"""ModernBERT's tokenizer: a tokenizer.json with byte-level BPE and BERT's special tokens."""

import hashlib
import json
import posixpath
import unicodedata
from reprlib import repr as shorten

import numpy as np

from keras_attn.errors import UserError, first_line
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.byte_pairs import (
    BytePairTokenizer,
    byte_alphabet,
    learn_merges,
    padding_row_name,
)
from keras_attn.text.roberta_byte_pairs import RobertaTokenizer
from keras_attn.text.row_layout import RowLayout

FILE = "tokenizer.json"
SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")  # as in the released vocabulary
_SPACE = "Ġ"  # a space at the start of a token
_FORMS = "NFC", "NFD", "NFKC", "NFKD"  # which tensorflow-text supports
_FLAGS = "single_word", "lstrip", "rstrip"  # of added tokens


class ModernBertTokenizer(RobertaTokenizer):
    """Tokenizes text as a tokenizer.json with byte-level BPE says, with its normalizer and its
    added tokens, such as runs of spaces.

    Special tokens in text are not recognized: `[MASK]` is split like any other text.

    Args:
        text: Content of tokenizer.json, a string.
        name: Name of the file in error messages.

    The attributes are those of `keras_attn.text.roberta_byte_pairs.RobertaTokenizer`, with `[CLS]`,
    `[PAD]`, `[SEP]`, `[UNK]` and `[MASK]`, and `verbatim`, which is True: documents are raw text.

    Raises:
        UserError: If the file is not such a tokenizer, or its vocabulary lacks a byte, a special
            token or a token of a merge.

    Reference:
        Warner et al., ModernBERT, 2024, section 2.2.
    """

    SPECIAL_TOKENS = SPECIAL_TOKENS
    verbatim = True
    mask_token = "[MASK]"

    def __init__(self, text, name=FILE):
        import tokenizers

        content = _content(text, name)
        vocabulary, merges = _vocabulary(content, name)
        BytePairTokenizer.__init__(self, vocabulary, merges, name)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises no other class
            raise UserError(f"Cannot read {name}: {first_line(error)}") from error
        self.text = text
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        self.unk_id, self.cls_id, self.sep_id, self.pad_id, self.mask_id = (
            self.ids[token] for token in SPECIAL_TOKENS
        )
        self.end_id = self.sep_id
        in_text = {*byte_alphabet(), *map("".join, self.merges)}
        in_text |= {piece for piece in self.vocabulary if piece.isspace()}  # added tokens
        self.special_ids = np.array(
            [number for number, piece in enumerate(self.vocabulary) if piece not in in_text],
            np.int32,
        )
        self.continuation = np.array(
            [piece in in_text and piece[0] not in (_SPACE, " ") for piece in self.vocabulary]
        )
        # Spans of tokens do not contain the spaces before a word, and rows get their special tokens
        # elsewhere.
        self._tokenizer.post_processor = tokenizers.processors.ByteLevel(
            add_prefix_space=False, trim_offsets=True
        )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # as ordinary text

    @property
    def row_layout(self):
        """[CLS] text [SEP], or [CLS] text [SEP] text [SEP]."""
        return RowLayout((self.cls_id,), (self.sep_id,), (self.sep_id,), self.pad_id)

    @property
    def recipe(self):
        return {"kind": "modernbert_bpe", "text": self.text}

    def in_graph(self):
        """Returns a function from strings `(N,)` to ragged ids, for a SavedModel.

        Raises:
            UserError: If the graph would not compute the ids of the `tokenizers` library.
        """
        from keras_attn.text.byte_pairs_graph import BytePairGraph

        content = json.loads(self.text)
        _check_runs_in_graph(content)
        form = (content.get("normalizer") or {}).get("type")
        added = {
            unicodedata.normalize(form, token["content"]) if form else token["content"]: token["id"]
            for token in content["added_tokens"]
            if not token["special"]  # which are ordinary text
        }
        return BytePairGraph(self, form, added)

    @classmethod
    def read(cls, folder):
        """Reads tokenizer.json, or the one of a folder."""
        path = str(folder)
        if gfile.isdir(path):
            path = posixpath.join(path, FILE)
        try:
            return cls(read_bytes(path).decode(), path)
        except UnicodeDecodeError as error:
            raise UserError(f"Cannot read {path}: it is not UTF-8 text") from error

    def write(self, folder):
        """Writes tokenizer.json atomically."""
        atomic_write(posixpath.join(str(folder), FILE), self.text.encode())

    def to_json(self):
        """Returns the content of tokenizer.json."""
        return self.text

    def padded(self, rows):
        """Returns this tokenizer with a vocabulary padded to the rows of an embedding matrix."""
        if rows == self.vocabulary_size:
            return self
        content = json.loads(self.text)
        content["added_tokens"] += [
            _added_token(padding_row_name(number), number)
            for number in range(self.vocabulary_size, rows)
        ]
        return ModernBertTokenizer(json.dumps(content, ensure_ascii=False))

    def without_padding_rows(self):
        if not self.num_padding_rows:
            return self
        content = json.loads(self.text)
        content["added_tokens"] = content["added_tokens"][: -self.num_padding_rows]
        return ModernBertTokenizer(json.dumps(content, ensure_ascii=False))


def train_modernbert_byte_pairs(texts, size):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Maximum vocabulary size, including the 256 bytes and the special tokens.

    Returns:
        A `ModernBertTokenizer`.

    Raises:
        UserError: If `size` is too small for these.
    """
    import tokenizers

    texts = (unicodedata.normalize("NFC", text) for text in texts)
    pieces, merges = learn_merges(texts, size, SPECIAL_TOKENS)
    ids = {piece: number for number, piece in enumerate(pieces)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(ids, [tuple(pair) for pair in merges]))
    made.normalizer = tokenizers.normalizers.NFC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    # A space before [MASK] belongs to it.
    made.add_special_tokens(
        [
            tokenizers.AddedToken(token, lstrip=token == "[MASK]", normalized=False, special=True)
            for token in SPECIAL_TOKENS
        ]
    )
    ends = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return ModernBertTokenizer(made.to_str())


def _content(text, name):
    """Returns the parsed tokenizer.json."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"Cannot read {name}: it is not JSON") from error
    content = content if isinstance(content, dict) else {}
    model, before = content.get("model"), content.get("pre_tokenizer")
    model, before = (found if isinstance(found, dict) else {} for found in (model, before))
    for field, value, needed in (
        ("model.type", model.get("type"), "BPE"),
        ("model.dropout", model.get("dropout"), None),
        ("pre_tokenizer.type", before.get("type"), "ByteLevel"),
        ("pre_tokenizer.add_prefix_space", before.get("add_prefix_space"), False),
    ):
        if value != needed:
            raise UserError(
                f"The tokenizer must be byte-level BPE with {field}={json.dumps(needed)}. "
                f"Received: {field}={shorten(value)} in {name}"
            )
    return content


def _vocabulary(content, name):
    """Returns the tokens in the order of their ids, and the merges."""
    model, added = content["model"], content.setdefault("added_tokens", [])
    try:
        ids = {**model["vocab"], **{token["content"]: token["id"] for token in added}}
        merges = [
            tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]
        ]
        tokens = sorted(ids, key=ids.__getitem__)
        consecutive = [ids[token] for token in tokens] == list(range(len(tokens)))
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"Cannot read {name}: it has no vocabulary and merges") from error
    if not consecutive or any(len(pair) != 2 for pair in merges):
        raise UserError(
            "Token ids must be consecutive from 0, and merges pairs of tokens. "
            f"Received: others in {name}"
        )
    return tokens, merges


def _added_token(content, number):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": True}


def _check_runs_in_graph(content):
    """Raises a `UserError` for the parts of tokenizer.json that `BytePairGraph` lacks."""
    model, before, form = (content[name] for name in ("model", "pre_tokenizer", "normalizer"))
    wrong = [
        f"{field}={shorten(value)}"
        for field, value, supported in (
            ("normalizer.type", form and form.get("type"), (None, *_FORMS)),
            ("pre_tokenizer.use_regex", before.get("use_regex", True), (True,)),
            ("model.ignore_merges", model.get("ignore_merges"), (None, False)),
            ("model.continuing_subword_prefix", model.get("continuing_subword_prefix"), (None, "")),
            ("model.end_of_word_suffix", model.get("end_of_word_suffix"), (None, "")),
        )
        if value not in supported
    ]
    for token in content["added_tokens"]:
        # Special tokens in text are ordinary text, whatever is stripped beside them. Others are
        # found in the normalized text.
        set_flags = [flag for flag in _FLAGS if token[flag] and not token["special"]]
        if token["normalized"] == token["special"]:
            set_flags.append(f"normalized={token['normalized']}")
        if set_flags:
            wrong.append(f"{', '.join(set_flags)} of the added token {shorten(token['content'])}")
    if wrong:
        raise UserError(
            "The tokenizer of this model does not run inside a SavedModel. Only the normalizers "
            f"{', '.join(_FORMS)}, BPE with its regular expression and merges, and added tokens "
            "that are special or normalized and that strip no spaces are supported. "
            f"Received: {wrong[0]}"
        )
