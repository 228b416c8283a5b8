"""Kinds of tokenizers: read, trained, and as JSON for processes that tokenise elsewhere.

What prepares text needs of a tokenizer: `encode(texts, threads)`, `vocabulary_size`, `lowercase`,
`unk_id` (None: there is none), `verbatim`, whether documents are its texts as they stand and not
sentences, `sha256`, `write(folder)`, and `recipe`, what `tokenizer_of` takes.
"""

from collections.abc import Callable
from typing import NamedTuple

from keras_attn.text import byte_pairs, sentence_pieces, subwords
from keras_attn.text.byte_pairs import BytePairTokenizer, train_byte_pairs
from keras_attn.text.sentence_pieces import SentencePieceTokenizer, train_sentence_pieces
from keras_attn.text.subwords import Subwords, train_subwords
from keras_attn.text.vocabulary import FILE, train_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer


class Kind(NamedTuple):
    """How tokenizers of a kind come to be.

    Attributes:
        name: "word_pieces", "byte_pairs", "sentence_pieces" or "subwords".
        files: What one writes to a folder.
        lowercase: Whether text is lower-cased where nothing is said.
        verbatim: Whether texts stay as they are: never lower-cased, and no sentences.
        made: Function of the arguments in a recipe.
        read: Function of a file or folder, and whether text is lower-cased.
        train: Function of texts, how many pieces at most, whether text is lower-cased, and further
            arguments of the kind.
    """

    name: str
    files: tuple
    lowercase: bool
    verbatim: bool
    made: Callable
    read: Callable
    train: Callable


def _trained_word_pieces(texts, size, lowercase):
    return WordPieceTokenizer(train_vocabulary(texts, size, lowercase), lowercase)


KINDS = {one.name: one for one in (
    Kind("word_pieces", (FILE,), True, WordPieceTokenizer.verbatim, WordPieceTokenizer,
         WordPieceTokenizer.from_file, _trained_word_pieces),
    Kind("byte_pairs", byte_pairs.FILES[0], False, BytePairTokenizer.verbatim,
         BytePairTokenizer, lambda folder, _: BytePairTokenizer.read(folder),
         lambda texts, size, _: train_byte_pairs(texts, size)),
    Kind("sentence_pieces", (sentence_pieces.FILE,), False,
         SentencePieceTokenizer.verbatim, SentencePieceTokenizer.of_recipe,
         SentencePieceTokenizer.read, train_sentence_pieces),
    Kind("subwords", (subwords.FILE,), False, Subwords.verbatim, Subwords.of_recipe,
         lambda path, _: Subwords.read(path),
         lambda texts, size, _, kind="bpe": Subwords(train_subwords(texts, size, kind))),
)}


def tokenizer_of(recipe):
    """The tokenizer of a recipe: a dictionary of its `kind` and its arguments."""
    arguments = dict(recipe)
    return KINDS[arguments.pop("kind")].made(**arguments)
