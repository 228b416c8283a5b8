"""Tokenizer types: how to read and train them, and JSON recipes to recreate them in other
processes.

Data preparation uses these members of a tokenizer: `encode(texts, threads)`, `vocabulary_size`,
`lowercase`, `unk_id` (None if there is no unknown token), `verbatim` (whether documents are kept as
raw text instead of being split into sentences), `sha256`, `write(folder)`, and `recipe`, the
argument of `make_tokenizer`.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras_attn.text import byte_pairs, modernbert_byte_pairs, sentence_pieces, subwords
from keras_attn.text.byte_pairs import BytePairTokenizer, train_byte_pairs
from keras_attn.text.modernbert_byte_pairs import (
    ModernBertTokenizer,
    train_modernbert_byte_pairs,
)
from keras_attn.text.roberta_byte_pairs import RobertaTokenizer, train_roberta_byte_pairs
from keras_attn.text.sentence_pieces import SentencePieceTokenizer, train_sentence_pieces
from keras_attn.text.subwords import Subwords, train_subwords
from keras_attn.text.vocabulary import FILE, train_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer


class TokenizerType(NamedTuple):
    """A tokenizer type.

    Attributes:
        name: "wordpiece", "bpe", "roberta_bpe", "modernbert_bpe", "sentencepiece" or "subwords".
        title: Name in messages.
        files: Names of the files that the tokenizer writes to a folder.
        lowercase: Whether text is lower-cased by default.
        verbatim: Whether documents are kept as raw text instead of being split into sentences.
        from_recipe: Function of the recipe's arguments that creates a tokenizer.
        read: Function of a file or folder and `lowercase` that reads a tokenizer.
        train: Function of texts, maximum vocabulary size and `lowercase` that trains a tokenizer.
        keeps_case: Whether the tokenizer cannot lower-case text.
    """

    name: str
    title: str
    files: tuple
    lowercase: bool
    verbatim: bool
    from_recipe: Callable
    read: Callable
    train: Callable
    keeps_case: bool = False


def _train_word_pieces(texts, size, lowercase):
    return WordPieceTokenizer(train_vocabulary(texts, size, lowercase), lowercase)


def _byte_level(name, tokenizer, files, train):
    """Returns the `TokenizerType` of a byte-level BPE, which keeps the case."""
    return TokenizerType(
        name,
        "byte-level BPE",
        files,
        False,
        tokenizer.verbatim,
        tokenizer,
        lambda folder, _: tokenizer.read(folder),
        lambda texts, size, _: train(texts, size),
        keeps_case=True,
    )


TOKENIZER_TYPES = {
    one.name: one
    for one in (
        TokenizerType(
            "wordpiece",
            "WordPiece",
            (FILE,),
            True,
            WordPieceTokenizer.verbatim,
            WordPieceTokenizer,
            WordPieceTokenizer.from_file,
            _train_word_pieces,
        ),
        _byte_level("bpe", BytePairTokenizer, byte_pairs.FILES[0], train_byte_pairs),
        _byte_level("roberta_bpe", RobertaTokenizer, byte_pairs.FILES[0], train_roberta_byte_pairs),
        _byte_level(
            "modernbert_bpe",
            ModernBertTokenizer,
            (modernbert_byte_pairs.FILE,),
            train_modernbert_byte_pairs,
        ),
        TokenizerType(
            "sentencepiece",
            "SentencePiece",
            (sentence_pieces.FILE,),
            False,
            SentencePieceTokenizer.verbatim,
            SentencePieceTokenizer.from_recipe,
            SentencePieceTokenizer.read,
            train_sentence_pieces,
        ),
        TokenizerType(
            "subwords",
            "SentencePiece",
            (subwords.FILE,),
            False,
            Subwords.verbatim,
            Subwords.from_recipe,
            lambda path, _: Subwords.read(path),
            lambda texts, size, _, kind="bpe": Subwords(train_subwords(texts, size, kind)),
            keeps_case=True,
        ),
    )
}


def make_tokenizer(recipe):
    """Creates the tokenizer of a recipe: a dictionary with its `kind` and arguments."""
    arguments = dict(recipe)
    return TOKENIZER_TYPES[arguments.pop("kind")].from_recipe(**arguments)
